use super::*;
use base::Bytes;
use vm::images::{Arch, HostCache};

fn faults(text: &str) -> Vec<String> {
    parse(text, "x").unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn a_farm_with_everything() {
    let text = r#"
name = "pinhead"
[limits]
memory = "2 GiB"
zram = "4 GiB"
zram_reads = 200
swap = "8 GiB"
ksm = true
[[class]]
name = "web"
count = 100
image = "web"
template = true
memory = "96 MiB"
memory_min = "32 MiB"
rules = "default"
ports = [{ guest = 80, host = 18000 }, { guest = 22, host = 19000, probe = "none" }]
swap = "zram:64 MiB"
park = "5min"
park_at_most = "1h"
command = "echo hello > /tmp/x"
[[class]]
name = "old"
arch = "s390x"
kernel = "k"
initramfs = "/i"
disk = "d.qcow2"
disk_cache = "none"
disk_reads = 150
daemon = false
args = ["a=1"]
"#;
    let farm = parse(text, "stem").unwrap();
    assert_eq!((farm.name.as_str(), farm.guests()), ("pinhead", 101));
    assert_eq!(farm.limits.memory, Some(Bytes::mib(2048)));
    assert!(farm.limits.ksm && farm.limits.zram_reads == Some(200));
    let web = &farm.classes[0];
    assert_eq!((web.memory_mib, web.memory_min_mib, web.zram_mib), (96, Some(32), 64));
    assert_eq!((web.cpus, web.shares, web.arch), (1, 100, Arch::X86_64));
    assert_eq!((web.park_ms, web.park_at_most_ms), (Some(300_000), Some(3_600_000)));
    assert!(!web.park_with_connections && farm.classes[1].park_ms.is_none());
    assert_eq!(web.source(), Source::Builtin(Builtin::Web));
    assert_eq!((web.ports[0].probe, web.ports[1].probe), (Probe::Http, Probe::None));
    assert_eq!((web.guest_name(7), web.host_port(&web.ports[0], 7)), ("web7".into(), 18006));
    let farm = farm.below(Path::new("/dir"));
    let Source::Files { kernel, initramfs, disk } = farm.classes[1].source() else { panic!() };
    assert_eq!(kernel, Path::new("/dir/k"));
    let old = &farm.classes[1];
    assert_eq!((old.disk_cache, old.disk_reads), (HostCache::None, Some(150)));
    assert_eq!((initramfs, disk), (Path::new("/i"), Some(Path::new("/dir/d.qcow2"))));
    assert_eq!(farm.classes[0].rules.as_deref(), Some("default"), "a preset is no path");

    let one = farm.clone().only(&["old".into()]).unwrap();
    assert_eq!((one.classes.len(), one.guests()), (1, 1));
    assert_eq!(farm.only(&["new".into()]), Err("new".into()));
}

#[test]
fn missing_key_has_a_default() {
    let farm = parse("[[class]]\nname = 'a'\n", "my-farm").unwrap();
    assert_eq!(farm.name, "my-farm");
    let class = &farm.classes[0];
    assert_eq!((class.count, class.memory_mib, class.cpus), (1, 128, 1));
    assert_eq!(class.source(), Source::Builtin(Builtin::Tiny));
    assert!(class.daemon && !class.template && class.ports.is_empty() && class.rules.is_none());
    assert_eq!(parse("[[class]]\nname = 'a'\n", "2.x").unwrap().name, "farm");
}

#[test]
fn faults_have_their_place_and_the_right_form() {
    let found = faults("[[class]]\nname = \"web\"\ncuont = 3\n");
    assert_eq!(found, ["3:1: class: no key `cuont` is known in [class] (is it `count`?)"]);
    let found = faults("[[class]]\nname = \"web\"\ncount = 0\nmemory = \"96\"\n");
    assert!(found[0].starts_with("3:9: class.count: 0 is out of range (write a whole number"));
    assert!(found[1].starts_with("4:10: class.memory: `96`: no known unit"), "{found:?}");
    assert!(faults("")[0].contains("has no guests"));
    assert!(faults("nmae = 'x'\n[[class]]\nname = 'a'\n")[0].contains("is it `name`?"));
    assert!(faults("[class]\nname = 'a'\n")[0].contains("two brackets"));
    assert!(faults("[[class]]\ncount = 2\n")[0].contains("needs a name"));
    assert!(faults("[[class]\n")[0].contains("this is no TOML"));
    assert!(faults("limits = 1\n[[class]]\nname = 'a'\n")[0].contains("expected a table, found"));
}

fn class_faults(keys: &str) -> Vec<String> {
    faults(&format!("[[class]]\nname = 'a'\n{keys}\n"))
}

#[test]
fn values_that_cannot_be_are_refused() {
    for (keys, word) in [
        ("image = 'windows'", "\"debian-combo\""),
        ("arch = 'vax'", "s390x"),
        ("arch = 's390x'\nimage = 'debian-nginx'", "x86_64 only"),
        ("memory = '16 MiB'", "48 MiB"),
        ("memory = '64 MiB'\nmemory_min = '65 MiB'", "more than the guest's memory"),
        ("kernel = 'k'", "a kernel and an initramfs"),
        ("image = 'web'\nkernel = 'k'\ninitramfs = 'i'", "remove `image`"),
        ("kernel = 'k'\ninitramfs = 'i'\ndisk = 'd'", ".qcow2"),
        ("ports = 80", "write a list of tables"),
        ("ports = [80]", "expected a port, found"),
        ("ports = [{ guest = 80 }]", "needs `guest` and `host`"),
        ("ports = [{ guest = 80, host = 70000 }]", "65535"),
        ("count = 100\nports = [{ guest = 80, host = 65500 }]", "the last is 65535"),
        ("ports = [{ guest = 80, host = 81 }, { guest = 81, host = 81 }]", "belong to class `a`"),
        ("ports = [{ guest = 80, hst = 1 }]", "is it `host`?"),
        ("ports = [{ guest = 80, host = 1, probe = 'x' }]", "\"postgres\""),
        ("swap = '64 MiB'", "zram:64 MiB"),
        ("heap = '64 MiB'", "debian-app"),
        ("args = ['a b']", "white space"),
        ("command = \"a\\nb\"", "one line"),
        ("rules = 'default'\ndaemon = false", "needs the guest daemon"),
        ("copy = true", "`copy` needs a template"),
        ("disk_cache = 'none'", "`disk_cache` needs a disk"),
        ("disk_reads = 100", "`disk_reads` needs a disk"),
        ("image = 'debian-nginx'\ndisk_cache = 'directsync'", "\"writeback\", \"none\""),
        ("image = 'debian-nginx'\ndisk_reads = 0", "out of range"),
        ("template = true\ndaemon = false", "clones need a daemon"),
        ("cpus = 65", "1 to 64"),
        ("park = '1s'", "at least 5s"),
        ("park = '5min'\npark_at_most = '1s'", "woken as soon as"),
        ("park_to = 'tape'", "disk"),
        ("[limits]\nzram = '1 GiB'\nzram_reads = 200", "needs `memory`"),
        ("[limits]\nmemory = '1 GiB'\nzram_reads = 200", "needs `memory`"),
        ("[limits]\nmemory = '1 GiB'\nzram = '1 GiB'\nzram_reads = 0", "out of range"),
        ("park_to = 'disk'", "only clones without a disk that share their template's memory"),
        ("park_to = 'disk'\ntemplate = true\ncopy = true", "only clones"),
        (
            "park_to = 'disk'\ntemplate = true\npark_with_connections = true",
            "ends the guest's QEMU",
        ),
    ] {
        let found = class_faults(keys);
        assert!(found.iter().any(|fault| fault.contains(word)), "{keys}: {found:?}");
    }
    assert!(faults("[[class]]\nname = 'web1'\n")[0].contains("no digit at the end"));
    assert!(faults("[[class]]\nname = 'a'\n[[class]]\nname = 'a'\n")[0].contains("already"));
    let many = "[[class]]\nname = 'a'\ncount = 1500\n[[class]]\nname = 'b'\ncount = 1500\n";
    assert!(faults(many)[0].contains("3000 guests together"));
}

#[test]
fn quoted_text_is_escaped_and_cut() {
    let found = class_faults("image = \"\\u001b[2J\"");
    assert!(found[0].contains("\\u{1b}[2J") && !found[0].contains('\u{1b}'), "{found:?}");
    let long = format!("image = \"{}\"", "x".repeat(5000));
    assert!(class_faults(&long)[0].len() < 200);
    assert!(faults(&"[[class]]\nx = 1\n".repeat(99)).len() <= settings::ERRORS_MAX);
}

#[test]
fn a_file_that_is_none_is_refused() {
    let missing = load(Path::new("/no/such/FARM.toml")).unwrap_err();
    assert!(missing.to_string().contains("/no/such/FARM.toml"), "{missing}");
    let dir = vm::Scratch::new("farm-config").unwrap();
    let path = dir.join("FARM.toml");
    std::fs::write(&path, b"name = '\xff'").unwrap();
    assert!(matches!(load(&path), Err(LoadError::Utf8 { offset: 8, .. })));
    std::fs::write(&path, vec![b'#'; FILE_MAX as usize + 1]).unwrap();
    assert!(matches!(load(&path), Err(LoadError::TooLong { .. })));
    std::fs::write(&path, "x = 1\ny = 2\n").unwrap();
    let wrong = load(&path).unwrap_err();
    assert_eq!(wrong.faults().unwrap().lines().count(), 2, "{wrong}");
    assert!(wrong.to_string().ends_with(", and 1 more"), "{wrong}");
}

const LINKED: &str = "[[class]]\nname = 'db'\nimage = 'debian-postgres'\ncount = 2\n\
                      ports = [{ guest = 22, host = 9000 }]\n[[class]]\nname = 'job'\n";

#[test]
fn links_join_guests_by_their_numbers() {
    let text = format!(
        "{LINKED}[[class]]\nname = 'app'\nimage = 'debian-app'\ncount = 3\n\
         links = [{{ to = 'db', port = 5432 }}, {{ to = 'db', port = 22 }}, \
         {{ to = 'job', port = 7 }}]\n"
    );
    let farm = parse(&text, "x").unwrap();
    let links: Vec<String> = farm
        .links()
        .iter()
        .map(|link| format!("{} {}:{} {}", link.client, link.address, link.port, link.server))
        .collect();
    // Numbers on the network: db1 and db2 have 1 and 2, job1 has 3, app1 to app3 have 4 to 6.
    let expected = [
        "4 10.0.1.1:5432 1",
        "5 10.0.1.1:5432 2",
        "6 10.0.1.1:5432 1",
        "4 10.0.1.1:22 1",
        "5 10.0.1.1:22 2",
        "6 10.0.1.1:22 1",
        "4 10.0.1.2:7 3",
        "5 10.0.1.2:7 3",
        "6 10.0.1.2:7 3",
    ];
    assert_eq!(links, expected);
    let [db, job, app] = &farm.classes[..] else { panic!() };
    assert_eq!(farm.neighbours(app), [("db", [10, 0, 1, 1].into()), ("job", [10, 0, 1, 2].into())]);
    assert!(farm.neighbours(db).is_empty());
    assert!([db, job, app].iter().all(|class| farm.is_linked(class)));
    assert_eq!([db, job, app].map(|class| farm.knows_password(class)), [true, false, true]);

    // A user's own kernel has no way to receive the password.
    let own = text.replace("image = 'debian-app'", "kernel = '/k'\ninitramfs = '/i'");
    let own = parse(&own, "x").unwrap();
    assert_eq!([0, 2].map(|at| own.knows_password(&own.classes[at])), [true, false]);

    let alone = farm.only(&["app".into()]).unwrap();
    assert!(alone.links().is_empty() && !alone.is_linked(&alone.classes[0]));
    assert!(!alone.knows_password(&alone.classes[0]), "its database is not started");
}

#[test]
fn links_that_cannot_be_are_refused_with_their_place() {
    for (links, word) in [
        (
            "[{ to = 'bd', port = 5432 }]",
            "10:17: class.links.to: there is no class `bd` (did you mean `db`?)",
        ),
        ("[{ to = 'xxxxxx', port = 5432 }]", "the classes are db, job, app"),
        ("[{ to = 'app', port = 8000 }]", "class `app` links to itself"),
        (
            "[{ to = 'db', port = 5433 }]",
            "10:30: class.links.port: class `db` does not serve port 5433",
        ),
        ("[{ to = 'db', port = 5433 }]", "the class serves 5432, 22; add others to its `ports`"),
        ("[{ to = 'db', port = 22 }, { to = 'db', port = 22 }]", "has a link already"),
        ("[{ to = 'db' }]", "needs `to` and `port`"),
        ("[{ port = 5432 }]", "needs `to` and `port`"),
        ("[{ to = 'db', prot = 5432 }]", "is it `port`?"),
        ("[{ to = 'db', port = 0 }]", "0 is out of range"),
        ("[5432]", "expected a link, found"),
        ("'db'", "write a list of tables"),
    ] {
        let found = faults(&format!("{LINKED}[[class]]\nname = 'app'\nlinks = {links}\n"));
        assert!(found.iter().any(|fault| fault.contains(word)), "{links}: {found:?}");
    }
    // A link to or from a class that is parked would never work, so the file is rejected.
    let app = "[[class]]\nname = 'app'\nlinks = [{ to = 'db', port = 5432 }]\n";
    let found = faults(&format!("{LINKED}{app}park = '5min'\n"));
    assert!(found[0].contains("class.links.to: class `app` has `park`"), "{found:?}");
    let db = "[[class]]\nname = 'db'\nimage = 'debian-postgres'\npark = '5min'\n";
    let found = faults(&format!("{db}{app}"));
    assert!(found[0].contains("class `db` has `park`"), "{found:?}");
    // Every message escapes the names that it contains.
    for links in ["[{ to = 'xxxxxx', port = 1 }]", "[{ to = '\u{1b}', port = 1 }]"] {
        let odd = "[[class]]\nname = \"\\u001b]0;x\\u0007\"\n[[class]]\nname = 'app'\nlinks = ";
        let found = faults(&format!("{odd}{links}\n"));
        assert!(!found.concat().contains(char::is_control), "{found:?}");
    }
}
