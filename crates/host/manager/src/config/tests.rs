use super::*;
use base::Bytes;
use policy::arbiter::{Limits, Mode};
use policy::rivals::Kind;

fn place() -> Place {
    Place { is_root: true, ..Place::default() }
}

fn ok(text: &str) -> Settings {
    parse(text, &place()).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

/// Returns the errors of a text, as `line:column key: message (help)`.
fn errors(text: &str) -> Vec<String> {
    let Err(errors) = parse(text, &place()) else { panic!("taken: {text}") };
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn budget_of_the_command_line_precedes_the_file() {
    let place = Place { budget: Some(Share::Bytes(Bytes::mib(480))), ..place() };
    let budget = |text, place| parse(text, place).unwrap().budget(Bytes::mib(16 << 10));
    assert_eq!(budget("[host]\nbudget = \"50%\"\n", &place), Some(Bytes::mib(480)));
    assert_eq!(budget("", &place), Some(Bytes::mib(480)));
}

#[test]
fn an_empty_file_is_the_defaults() {
    let settings = ok("");
    let total = Bytes::mib(16 << 10);
    let expected = policy::arbiter::Config::of_host(total);
    assert_eq!(settings.arbiter(total), expected);
    // A response that misses its pass must still count in the next pass.
    let stale_ms = |interval: &str| {
        ok(&format!("[host]\ninterval = \"{interval}\"\n")).arbiter(total).stale_ms
    };
    assert_eq!(["100ms", "1s", "10s"].map(stale_ms), [1_000, 1_500, 10_500]);
    assert_eq!(settings.budget(total), None);
    assert_eq!(settings.sources.libvirt, Libvirt::Auto);
    assert_eq!(settings.sources.qmp, hypervisor::QMP_PATTERNS);
    assert_eq!(settings.control.socket, Some("/run/pinhead/host.sock".into()));
    let user = Place { own_dir: Some("/tmp/run/pinhead".into()), ..Place::default() };
    let settings = parse("", &user).unwrap();
    assert_eq!(settings.sources.qmp.last().unwrap(), "/tmp/run/pinhead/up/*/*.qmp");
    assert_eq!(settings.control.socket, Some("/tmp/run/pinhead/host.sock".into()));
    assert_eq!(settings.journal.path, None, "no place was configured");
}

#[test]
fn recordings_are_next_to_the_journal_and_kept_as_configured() {
    let dir = |text: &str| ok(text).monitor.dir.unwrap();
    assert_eq!(dir(""), std::path::Path::new("/var/lib/pinhead/recordings"));
    assert_eq!(dir("[journal]\npath = '/a/j.db'"), std::path::Path::new("/a/recordings"));
    assert_eq!(dir("[monitor]\ndir = '/b'"), std::path::Path::new("/b"));
    assert_eq!(ok("").monitor.keep(), store::Keep::USUAL);
    let keep = ok("[monitor]\nraw = '5400s'\nminutes = '25h'\nraw_size = '1 MiB'").monitor.keep();
    assert_eq!((keep.raw_hours, keep.minutes_days, keep.raw_bytes), (2, 2, 1 << 20));
    let errors = errors("[monitor]\ndir = 'here'\n");
    assert!(errors[0].contains("no absolute path"), "{errors:?}");
}

#[test]
fn report_h14_sources_that_fit_no_socket_are_refused() {
    for (source, message, help) in [
        ("tcp:127.0.0.1:4444", "only unix sockets are looked for", "-qmp unix:"),
        ("unix:/run/a.qmp,server=on", "is no path", "\"/run/a.qmp\""),
        ("/run/{a,b}/*.qmp", "patterns cannot contain braces or brackets", "several patterns"),
        ("/run/[a-z]*.qmp", "patterns cannot contain braces or brackets", "several patterns"),
        ("/run/**/*.qmp", "cannot span directories", "for each depth"),
        ("run/*.qmp", "is no absolute path", "begin it with a slash"),
    ] {
        let errors = errors(&format!("[sources]\nqmp = ['{source}']\n"));
        assert!(errors[0].contains(message) && errors[0].contains(help), "{errors:?}");
    }
    assert_eq!(ok("[sources]\nqmp = ['/run/a-?/*.qmp']").sources.qmp, ["/run/a-?/*.qmp"]);
}

#[test]
fn report_h11_no_default_takes_the_monitor_of_another_program() {
    let defaults = ok("").sources.qmp;
    assert!(!defaults.is_empty());
    // A monitor serves one client, and Proxmox, Incus and libvirt need their guests' monitors
    // themselves.
    assert!(defaults.iter().all(|pattern| pattern.contains("/pinhead/up/")), "{defaults:?}");
}

#[test]
fn the_example_is_the_defaults() {
    let example = include_str!("../../../../../packaging/host.toml");
    assert_eq!(ok(example), ok(""));
    // Without the comment signs, the file is a complete and valid example.
    let is_setting = |line: &&str| line.starts_with("#[") || line.contains(" = ");
    let full: Vec<_> = example.lines().filter(is_setting).collect();
    let full = full.join("\n").replace('#', "");
    let settings = ok(&full);
    assert_eq!(settings.classes.len(), 2);
    for section in settings::SECTIONS {
        for key in section.keys {
            assert!(full.contains(&format!("\n{} = ", key.name)), "no {}", key.name);
        }
    }
}

#[test]
fn the_manual_has_every_key_with_its_default() {
    let manual = include_str!("../../../../../docs/host.md");
    for section in settings::SECTIONS {
        for key in section.keys {
            let row = format!("| `{}` | {} | {} |", key.name, key.default, key.doc);
            assert!(manual.contains(&row), "docs/host.md lacks: {row}");
        }
    }
}

#[test]
fn the_first_class_that_fits_counts() {
    let settings = ok("[[class]]\nname = 'web'\nmatch = ['web*', 'LNX1*']\nmin = '25%'\n\
                       max = '512 MiB'\nshares = 300\n\
                       [[class]]\nname = 'db'\nmatch = ['*']\npin = '2 GiB'\n\
                       [[class]]\nname = 'late'\nmatch = ['late']\n");
    let gib = Bytes::mib(1024);
    let (limits, class) = settings.limits("LNX12", gib);
    assert_eq!(class, Some("web"));
    assert_eq!((limits.min, limits.max, limits.shares), (gib.permille(250), Bytes::mib(512), 300));
    // A size above the guest's memory is capped at that memory.
    let (limits, class) = settings.limits("late", gib);
    assert_eq!((class, limits.mode), (Some("db"), Mode::Pinned(gib)));
    let settings = ok("");
    let (limits, class) = settings.limits("any", Bytes::mib(256));
    let managed = Limits {
        min: Bytes::mib(64),
        ordered: false,
        max: Bytes::mib(256),
        shares: 100,
        mode: Mode::Managed,
    };
    assert_eq!((limits, class), (managed, None));
    let (limits, _) = settings.limits("tiny", Bytes::mib(32));
    assert_eq!((limits.min, limits.max), (Bytes::mib(32), Bytes::mib(32)));
}

#[test]
fn all_faults_are_reported_with_their_places() {
    let text = "[host]\nset_piont = '10%'\nreserve = '12%'\ninterval = '1ms'\n\n\
                [polcy]\n[policy]\nidle_tax = 75\nstep = '0%'\n[ksm]\nmode = 'on'\n\
                [[class]]\nname = 'a'\nmatch = ['a']\nmin = '2 GiB'\nmax = '1 GiB'\n\
                [[class]]\nname = 'a'\nmatch = []\npin = '1%'\nrelease = true\n[[class]]\n\
                [pageout]\nmode = 'awake'\n";
    let found = errors(text);
    let expected = [
        "2:1: host: no key `set_piont` is known in [host] (is it `set_point`?)",
        "3:11: host.reserve: the reserve (12%) is not below the set point (10%) (",
        "4:12: host.interval: the time between two passes is too short or too long (",
        "6:2: no table `polcy` is known (is it `policy`?)",
        "8:12: policy.idle_tax: expected a quantity, found a number (write it in quotes",
        "9:8: policy.step: no guest would ever give memory",
        "11:8: ksm.mode: no such mode (write \"auto\", \"off\" or \"leave\")",
        "15:7: class.min: min (2 GiB) is more than max (1 GiB)",
        "18:8: class.name: there is a class `a` already",
        "19:9: class.match: the list of patterns is empty",
        "20:7: class.pin: a released guest is not managed, so it cannot be pinned",
        "22:1: class: a class needs a name and patterns",
        "24:8: pageout.mode: no such mode (write \"all\", \"sleepers\" or \"off\")",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
}

#[test]
fn parts_and_sizes_are_compared_where_the_hosts_memory_is_known() {
    let text = "[host]\nset_point = '10%'\nreserve = '3 GiB'\nhysteresis = '1%'\n";
    assert!(parse(text, &place()).is_ok(), "the host's memory is unknown");
    let of_host = |gib: u64| Place { host_total: Some(Bytes::mib(gib << 10)), ..place() };
    assert!(parse(text, &of_host(64)).is_ok());
    assert_eq!(parse(text, &of_host(16)).unwrap_err()[0].key, "host.reserve");
    let errors = parse("[host]\nhysteresis = '9%'", &place()).unwrap_err();
    assert_eq!(errors[0].key, "host.hysteresis");
    let errors = parse("[host]\nset_point = '20 GiB'", &of_host(16)).unwrap_err();
    assert_eq!(errors[0].key, "host.set_point");
}

#[test]
fn invalid_toml_is_reported_with_its_place() {
    let found = errors("[host\nset_point = '10%'\n");
    assert!(found[0].starts_with("1:6: this is no TOML"), "{found:?}");
    assert!(errors("class = 1")[0].contains("[[class]]"));
    assert!(errors("host = 1")[0].contains("[host]"));
    assert!(errors("[class]\nname = 'a'")[0].contains("[[class]]"));
    let wide = errors("[host]\n\"ü\\u001b[2J\" = '1%'\n");
    assert!(wide[0].contains("`ü\\u{1b}[2J`"), "escaped: {wide:?}");
    let many = "[host]\n".to_owned() + &(0..200).map(|i| format!("x{i} = 1\n")).collect::<String>();
    assert_eq!(errors(&many).len(), 50);
}

#[test]
fn a_policy_is_one_of_those_that_are_known() {
    for kind in Kind::ALL {
        let settings = ok(&format!("[policy]\nkind = '{kind}'\n"));
        assert_eq!(settings.policy.kind, *kind);
    }
    assert_eq!(ok("").policy.kind, Kind::Pinhead);
    let found = errors("[policy]\nkind = 'proxmos'\n");
    assert_eq!(found, ["2:8: policy.kind: no policy `proxmos` is known (is it \"proxmox\"?)"]);
    let found = errors("[policy]\nkind = 'hyper-v'\n");
    assert!(found[0].ends_with("(one of pinhead, mom, proxmox, pi, senpai, reporting, none)"));
    let found = errors("[policy]\nrules = 'r'\nkind = 'mom'\n");
    assert!(
        found[0].starts_with("2:9: policy.rules: the policy \"mom\" does not use"),
        "{found:?}"
    );
}

#[test]
fn sources_are_checked() {
    let settings = ok("[sources]\nqmp = []\nlibvirt = ['qemu+unix:///system?socket=/s', \
                       'qemu:///session']\n");
    assert!(settings.sources.qmp.is_empty());
    let system = LibvirtUri { uri: "qemu:///system".into(), socket: Some("/s".into()) };
    let session = LibvirtUri { uri: "qemu:///session".into(), socket: None };
    assert_eq!(settings.sources.libvirt, Libvirt::Uris(vec![system, session]));
    assert!(errors("[sources]\nlibvirt = ['xen:///']\n")[0].contains("qemu:///system"));
    assert!(errors("[sources]\nqmp = ['a/*']\n")[0].contains("slash"));
    assert!(errors("[sources]\nqmp = 'a'\n")[0].contains("list"));
    assert!(errors("[control]\nsocket = 'a'\n")[0].contains("slash"));
}

#[test]
fn shadow_is_read_relative_to_its_file_and_has_no_shadow_itself() {
    let dir = procfs::testing::Tree::create();
    let main = dir.file("host.toml", "[policy]\nshadow = 'other.toml'\nrules = 'r'\n");
    dir.file("other.toml", "[host]\nset_point = '20%'\n");
    let loaded = load(Some(&main), &place()).unwrap();
    assert_eq!(loaded.settings.policy.rules, Some(dir.path().join("r")));
    assert_eq!(loaded.shadow.unwrap().host.set_point, Share::Permille(200));
    dir.file("other.toml", "[policy]\nshadow = 'third.toml'\n");
    assert!(matches!(load(Some(&main), &place()), Err(LoadError::NestedShadow { .. })));
    dir.file("other.toml", "[host]\nx = 1\n");
    let error = load(Some(&main), &place()).unwrap_err().to_string();
    assert!(error.contains("other.toml:2:1: host: no key"), "{error}");
    let missing = load(Some(&dir.path().join("none")), &place());
    assert!(matches!(missing, Err(LoadError::Read { .. })));
}

#[test]
fn the_part_of_a_user_is_divided_among_the_users_guests() {
    let gib = |gib: u64| Bytes::mib(gib << 10);
    let settings = ok("[sources]\nusers = ['alice', 'bob']\n\
                       [[user]]\nname = 'alice'\nmax = '4 GiB'\nshares = 30\n\
                       [[class]]\nname = 'db'\nmatch = ['*']\npin = '100%'\n");
    let part = |user: &str, memory, guests| UserPart {
        user: user.into(),
        memory,
        guests,
        host_total: gib(16),
    };
    let limits = |part, memory| settings.entitlement("alice/db1", memory, Some(&part)).0;
    let one = limits(part("alice", gib(2), 1), gib(2));
    assert_eq!((one.max, one.shares, one.mode), (gib(2), 30, Mode::Managed), "no class of ours");
    let claimed = limits(part("alice", gib(64), 2), gib(62));
    assert_eq!((claimed.max, claimed.shares), (Bytes::mib(3968), 15));
    assert!(claimed.min < gib(1), "the minimum is a part of the maximum: {}", claimed.min);
    let endless = limits(part("bob", Bytes(u64::MAX), 3), Bytes(u64::MAX));
    assert_eq!(endless.max, gib(4), "a quarter of the host by default");
}

#[test]
fn a_part_is_of_a_user_whose_guests_are_looked_for() {
    let errors = errors(
        "[sources]\nusers = ['bob']\n[[user]]\nname = 'alice'\n[[user]]\n\
                         name = 'bob'\n[[user]]\nname = 'bob'\n[[user]]\nmax = '1 GiB'\n",
    );
    let words =
        ["the guests of `alice` are not searched for", "a user `bob` already", "needs a name"];
    assert_eq!(errors.len(), words.len(), "{errors:?}");
    for (error, words) in errors.iter().zip(words) {
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn report_e05_the_usual_file_is_named_while_it_is_in_force() {
    let dir = procfs::testing::Tree::create();
    let usual = dir.join("host.toml");
    let in_force = || load_or(None, &usual, &Place::default()).unwrap().path;
    assert_eq!(in_force(), None);
    dir.file("host.toml", "");
    assert_eq!(in_force(), Some(usual.clone()));
}
