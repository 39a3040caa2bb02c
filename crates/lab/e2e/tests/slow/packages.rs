//! Debian packages in a Debian with systemd: installed, hardened, at work, upgraded and purged. RPM
//! packages are tested in a separate root file system.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use e2e::{PATIENCE, alone, daemon_dir, is_there, line_that_writes, skipped, soon};
use vm::images::{Arch, Cache, Disk, DiskFormat, GuestFile, ImageSpec};
use vm::{Accel, Deadline, GuestSpec, Session, WhyEmulation, probe_kvm};
use wire::{Decoder, ToHost};

/// Packages that pinhead's packages and this test need, in addition to Debian's essential packages.
const INCLUDED: &str = "systemd,systemd-sysv,passwd,procps,busybox-static,libgcc-s1,perl-base";
const LEFT_OUT: [&str; 3] = ["/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*"];

/// Starts systemd in place of the first process of a pinhead guest.
const FIRST: &str = "#!/bin/sh\nexec /lib/systemd/systemd\n";

/// Maximum exposure that `systemd-analyze security` may report for a unit.
const EXPOSURE_MAX: f64 = 3.0;

const UNITS: [&str; 2] = ["pinhead-host.service", "pinheadd.service"];

/// Files of the host's package besides its programs and units.
const CONTENTS: [&str; 7] = [
    "usr/share/doc/pinhead/docs/host.md",
    "usr/share/doc/pinhead/examples/FARM.toml",
    "usr/share/man/man5/host.toml.5.gz",
    "usr/share/man/man5/FARM.toml.5.gz",
    "usr/share/bash-completion/completions/pinhead",
    "usr/share/zsh/vendor-completions/_pinhead",
    "usr/share/fish/vendor_completions.d/pinhead.fish",
];

/// Settings that the manager's unit must permit.
const SETTINGS: &str = "[host]\nset_point = \"11%\"\n[ksm]\nmode = \"off\"\n\
    [sources]\nqmp = [\"/run/monitors/*.qmp\"]\n\
    [control]\ngroup = \"pinhead\"\n\
    [metrics]\nlisten = \"127.0.0.1:9177\"\n\
    remote_write = \"http://localhost:8428/api/v1/write\"\ninterval = \"1s\"\n";

/// A fake monitor that runs as an unprivileged user. Another user needs a capability to inspect the
/// monitor's process.
const MONITOR: &str = r#"use IO::Socket::UNIX; use IO::Handle; umask 0077; mkdir "/run/monitors";
my $l = IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => "/run/monitors/g1.qmp", Listen => 4);
my $version = qq({"qemu":{"micro":0,"minor":2,"major":7},"package":""});
$< = $> = 65534;
while (my $c = $l->accept) {
  print $c qq({"QMP":{"version":$version,"capabilities":[]}}\n); $c->flush;
  open(my $o, ">>", "/tmp/asked");
  while (<$c>) {
    print $o $_; $o->flush;
    print $c qq({"return":{}}\n) if /qmp_capabilities/; $c->flush;
  }
}
"#;

/// Timeout of an installation, which runs dozens of small programs. The emulator translates each
/// program again.
const LONG: Duration = Duration::from_secs(600);

fn later() -> Deadline {
    Deadline::after(LONG)
}

/// Runs a command on the host. A failure shows the command's output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}\n{errors}");
    text
}

fn root_of_tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap().to_path_buf()
}

/// Builds the packages as `make package` does, with a given revision.
fn packages(directory: &Path, revision: &str) {
    let mut make = Command::new(root_of_tree().join("scripts/package"));
    run(make.arg(directory).env("PINHEAD_REVISION", revision).env("PINHEAD_XZ_LEVEL", "0"));
}

/// Makes a Debian from this machine's package sources.
fn debian(tree: &Path) {
    let mut make = Command::new("unshare");
    make.args(["--pid", "--fork", "--kill-child", "--mount-proc", "mmdebstrap"]);
    make.args(["--quiet", "--variant=essential", "--mode=root", "--format=directory"]);
    make.arg(format!("--include={INCLUDED}"));
    make.args(["--aptopt=Apt::Install-Recommends \"false\"", "--dpkgopt=force-unsafe-io"]);
    make.args(LEFT_OUT.map(|path| format!("--dpkgopt=path-exclude={path}")));
    make.args(["".as_ref(), tree]);
    for list in ["/etc/apt/sources.list", "/etc/apt/sources.list.d/debian.sources"] {
        if Path::new(list).exists() {
            make.arg(list);
        }
    }
    run(&mut make);
    fs::write(tree.join("etc/machine-id"), "0123456789abcdef0123456789abcdef\n").unwrap();
    fs::write(tree.join("etc/hosts"), "127.0.0.1 localhost\n").unwrap();
    let shell = tree.join("usr/local/lib/shell.sh");
    fs::write(shell, include_str!("packages/shell.sh")).unwrap();
    let units = tree.join("etc/systemd/system");
    fs::write(units.join("shell.service"), include_str!("packages/shell.service")).unwrap();
    symlink("../shell.service", units.join("multi-user.target.wants/shell.service")).unwrap();
}

/// Boots a guest from the first process on, with this Debian as its root file system.
fn boot(scratch: &Path, tree: &Path) -> Session {
    let image = scratch.join("image");
    let path = std::env::var("PATH").unwrap() + ":/usr/sbin:/sbin";
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.env("PATH", path).args(["-q", "-F", "-m", "0", "-d"]).arg(tree).arg(&image).arg("2G");
    run(&mut mkfs);
    let first = GuestFile { mode: 0o755, ..GuestFile::text("/usr/sbin/pinhead-guest", FIRST) };
    let spec = ImageSpec { arch: Arch::X86_64, daemon: None, files: vec![first] };
    let cache = Cache::from_environment().unwrap();
    let spec = GuestSpec {
        cpus: 2,
        memory_mib: 512,
        translation_mib: 64,
        kernel_args: vec!["systemd.getty_auto=no".into(), "systemd.hostname=debian".into()],
        disk: Some(Disk::temporary(image, DiskFormat::Raw)),
        ..GuestSpec::new("debian", spec.build(&cache).unwrap(), probe_kvm(Arch::X86_64))
    };
    Session::boot(&spec, soon()).unwrap_or_else(|e| panic!("{e}"))
}

fn sh(guest: &mut Session, line: &str) -> String {
    let output = guest.ctl.as_mut().unwrap().run(line, later()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(output.code, 0, "{line}\n{}", output.text);
    output.text
}

/// Waits until a line of the guest's shell succeeds.
fn until(guest: &mut Session, line: &str) {
    let wait = format!("n=0; until {line}; do n=$((n + 1)); [ $n -lt 300 ] || exit 1; ");
    let output = guest.ctl.as_mut().unwrap();
    let output = output.run(&format!("{wait} busybox usleep 100000; done"), later()).unwrap();
    if output.code != 0 {
        let log = sh(guest, "journalctl -b --no-pager -u 'pinhead*' | tail -n 40");
        panic!("never: {line}\n{}\n{log}", output.text);
    }
}

fn both_are_active(guest: &mut Session) {
    for unit in UNITS {
        until(guest, &format!("systemctl -q is-active {unit}"));
    }
}

/// Lists possible leftovers: all users and groups, and all files except those of the package
/// manager and the logs.
fn inventory(guest: &mut Session) -> String {
    let kept = ["/var/log", "/var/lib/dpkg", "/var/cache", "/var/lib/systemd", "/tmp", "/var/tmp"];
    let kept = kept.map(|path| format!("-path {path} -prune -o")).join(" ");
    let files = format!("find / -xdev {kept} -path '/etc/*-' -o -print | sort");
    let run = "find /run -path '*pinhead*'; grep pinhead /proc/net/unix";
    sh(guest, &format!("{files}; {run}; cat /etc/passwd /etc/group"))
}

fn exposure(guest: &mut Session, unit: &str) -> f64 {
    let said = sh(guest, &format!("systemd-analyze security --no-pager {unit} | tail -n 1"));
    let number = said.split(' ').find_map(|word| word.parse().ok());
    println!("{}", said.trim());
    number.unwrap_or_else(|| panic!("no number: {said}"))
}

/// Checks that the first start of the package's manager changes nothing, and that the pages are
/// off.
fn the_first_start_only_watches(guest: &mut Session) {
    let enabled = sh(guest, "systemctl is-enabled pinhead-web || :");
    assert_eq!(enabled.trim(), "disabled");
    until(guest, "pinhead ps --status > /dev/null 2>&1");
    let told = sh(guest, "pinhead ps");
    let remedy = "; set `act = true` in /etc/pinhead/host.toml and run \
                  `systemctl restart pinhead-host`";
    assert!(told.contains(&format!("watching 0 guests, changing nothing{remedy}")), "{told}");
}

/// Checks that the manager's unit permits everything that the settings request.
fn the_manager_works(guest: &mut Session) {
    write(guest, "/usr/local/lib/monitor.pl", MONITOR);
    sh(guest, "perl /usr/local/lib/monitor.pl > /dev/null 2>&1 & echo 1 > /sys/kernel/mm/ksm/run");
    sh(guest, "busybox nc -l -p 8428 > /tmp/pushed 2> /dev/null < /dev/null & :");
    until(guest, "[ -S /run/monitors/g1.qmp ]");
    write(guest, "/etc/pinhead/host.toml", SETTINGS);
    sh(guest, "systemctl restart pinhead-host");
    let metrics = "busybox wget -q -O - http://127.0.0.1:9177/metrics";
    until(guest, &format!("{metrics} | grep -q ^pinhead_host_"));
    until(guest, "grep -q 'POST /api/v1/write' /tmp/pushed");
    until(guest, "grep -q qmp_capabilities /tmp/asked");
    assert_eq!(sh(guest, "cat /sys/kernel/mm/ksm/run").trim(), "0", "KSM's files can be written");
    assert!(sh(guest, "ls /var/lib/pinhead").contains("journal.db"));
    // A killed manager is restarted.
    sh(guest, "systemctl kill -s KILL --kill-whom=main pinhead-host");
    until(guest, "pinhead ps --status > /dev/null 2>&1");
    both_are_active(guest);
    // Members of the group may send requests. Other users may not.
    sh(guest, "useradd -M -G pinhead operator1");
    let as_user = |user: &str| format!("setpriv --reuid {user} --regid 65534 --init-groups");
    sh(guest, &format!("{} pinhead ps --status", as_user("operator1")));
    let refused = format!("{} pinhead reserve 8 2>&1 | grep -q group_may", as_user("operator1"));
    sh(guest, &refused);
    let journal = "head -c 16 /var/lib/pinhead/journal.db";
    sh(guest, &format!("{} {journal} > /dev/null", as_user("operator1")));
    sh(guest, &format!("! {} {journal} 2> /dev/null", as_user("nobody")));
    sh(guest, &format!("! {} pinhead ps --status 2> /dev/null", as_user("nobody")));
    sh(guest, "pinhead reserve 8");
    sh(guest, "userdel operator1");
    sh(guest, "busybox pkill perl; rm -r /run/monitors /tmp/asked /usr/local/lib/monitor.pl");
}

/// Checks that the daemon's unit permits everything that the rules request.
fn the_daemon_works(guest: &mut Session) {
    // This pace needs a trigger on the kernel's pressure files.
    write(guest, "/etc/default/pinheadd", "PINHEADD_OPTIONS=\"--pace adaptive\"\n");
    // Until now, the guest has had one CPU online. An old emulator fails if a kernel patches its
    // own code while other CPUs run. Starting services cause such patches.
    let second_cpu = "/sys/devices/system/cpu/cpu1/online";
    sh(guest, &format!("systemctl stop pinheadd; echo 1 > {second_cpu}; systemctl start pinheadd"));
    until(guest, "[ $(cat /sys/devices/system/cpu/online) = 0 ]");
    let (mut decoder, mut chunk) = (Decoder::new(), [0; 512]);
    guest.port.set_read_timeout(Some(PATIENCE)).unwrap();
    let message = loop {
        let count = std::io::Read::read(&mut guest.port, &mut chunk).unwrap();
        decoder.feed(&chunk[..count]);
        if let Some(message) = decoder.next() {
            break message;
        }
    };
    assert!(matches!(message, ToHost::Hello(_)), "{message:?}");
    sh(guest, "systemctl stop pinheadd");
    assert_eq!(sh(guest, "cat /sys/devices/system/cpu/online").trim(), "0-1", "put back");
    sh(guest, &format!("echo 0 > {second_cpu}; systemctl start pinheadd"));
}

/// Writes a file in the guest with one shell line.
fn write(guest: &mut Session, path: &str, text: &str) {
    sh(guest, &line_that_writes(path, text));
}

fn nothing_was_refused(guest: &mut Session) {
    let words = "'denied|not permitted|read-only|cannot|panic'";
    // Nobody listens where the settings push metrics to.
    let but = "'Metrics cannot be pushed'";
    let log = "journalctl -b --no-pager -u 'pinhead*'";
    let log = format!("{log} | grep -v {but} | grep -iE {words} || true");
    let said = sh(guest, &log);
    assert!(said.is_empty(), "{said}");
}

/// Checks the files of the host's package, and its `pinhead up`, which includes the daemon for its
/// guests.
fn the_packaged_up_works(scratch: &Path, packages: &Path) {
    let files = fs::read_dir(packages).unwrap().map(|entry| entry.unwrap().path());
    let is_host = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("pinhead_") && name.ends_with(".deb")
    };
    let package = files.into_iter().find(is_host).expect("the host's package");
    let needed = run(Command::new("dpkg-deb").arg("-f").arg(&package).arg("Depends"));
    assert!(needed.contains("procps"), "`systemctl reload` runs its kill: {needed}");
    let installed = scratch.join("installed");
    run(Command::new("dpkg-deb").arg("-x").args([&package, &installed]));
    for file in CONTENTS {
        assert!(installed.join(file).is_file(), "{file}");
    }
    let settings = fs::read_to_string(installed.join("etc/pinhead/host.toml")).unwrap();
    assert!(
        settings.contains("\n[policy]\n") && settings.contains("\nact = false\n"),
        "{settings}"
    );
    let mut up = Command::new(installed.join("usr/bin/pinhead"));
    up.args(["up", "--guests", "1", "--idle", "--for", "1", "--format", "json"]);
    let report = run(up.env_remove("PINHEAD_GUEST_DIR"));
    assert!(report.contains("\"name\":\"g1\""), "{report}");
}

#[test]
fn packages_install_work_hardened_upgrade_and_purge() {
    if !rustix::process::geteuid().is_root() {
        return skipped("Debian's images need root");
    }
    for program in ["rpm", "rpmbuild", "dpkg-deb", "dpkg-shlibdeps", "mmdebstrap"] {
        if !is_there(program) {
            return skipped(&format!("no {program}: `scripts/setup test package` installs it"));
        }
    }
    let _alone = alone();
    let clock = soon();
    let scratch = e2e::scratch("packages");
    let tree = scratch.join("tree");
    debian(&tree);
    println!("a Debian after {:?}", clock.elapsed());
    for revision in ["1", "2"] {
        packages(&tree.join("packages").join(revision), revision);
    }
    println!("packages after {:?}", clock.elapsed());
    the_packaged_up_works(scratch.path(), &tree.join("packages/2"));
    rpms_install_and_go(&scratch.join("rpm"), &tree);
    the_s390x_daemon_runs(scratch.path(), &tree);
    println!("RPM and s390x after {:?}", clock.elapsed());

    let mut guest = boot(scratch.path(), &tree);
    let guest = &mut guest;
    println!("booted after {:?}", clock.elapsed());
    let before = inventory(guest);
    let install = |revision: &str| format!("dpkg -i /packages/{revision}/*_amd64.deb");
    sh(guest, &install("1"));
    both_are_active(guest);
    for unit in UNITS {
        let exposure = exposure(guest, unit);
        assert!(exposure <= EXPOSURE_MAX, "{unit}: {exposure}");
    }
    the_first_start_only_watches(guest);
    the_manager_works(guest);
    the_daemon_works(guest);
    println!("at work after {:?}", clock.elapsed());

    sh(guest, &install("2"));
    both_are_active(guest);
    let version = "dpkg-query -W -f '${Version} ' pinhead pinheadd";
    assert_eq!(sh(guest, version).matches("-2 ").count(), 2);
    assert_eq!(sh(guest, "cat /etc/pinhead/host.toml"), SETTINGS);
    assert!(sh(guest, "cat /etc/default/pinheadd").contains("--pace adaptive"));
    until(guest, "busybox wget -q -O /dev/null http://127.0.0.1:9177/metrics");
    nothing_was_refused(guest);

    sh(guest, "dpkg -r pinhead pinheadd");
    sh(guest, "[ -s /var/lib/pinhead/journal.db ] && [ -s /etc/pinhead/host.toml ]");
    sh(guest, "dpkg -P pinhead pinheadd");
    let after = inventory(guest);
    let left: Vec<&str> =
        after.lines().filter(|line| !before.lines().any(|was| was == *line)).collect();
    assert!(left.is_empty(), "left by a purge: {left:#?}");
    sh(guest, "! busybox pgrep pinhead");
    println!("purged after {:?}", clock.elapsed());
}

/// Installs, upgrades and erases the RPMs, with their scripts, in a copy of the tree.
fn rpms_install_and_go(root: &Path, tree: &Path) {
    run(Command::new("cp").args(["-a", "--reflink=auto"]).args([tree, root]));
    let rpm = |words: &[&str], packages: &str| {
        let mut rpm = Command::new("rpm");
        rpm.arg("--root").arg(root).args(words);
        match packages {
            "" => rpm.args(["pinhead", "pinheadd"]),
            revision => {
                let files = format!("{}/packages/{revision}", root.display());
                let files = fs::read_dir(files).unwrap().map(|entry| entry.unwrap().path());
                rpm.args(files.filter(|file| file.to_string_lossy().ends_with(".x86_64.rpm")))
            }
        };
        run(&mut rpm)
    };
    let listed = rpm(&["-qlp"], "1");
    let programs = ["/usr/bin/pinhead", "/usr/libexec/pinhead/pinhead-web", "/usr/sbin/pinheadd"];
    for file in programs.into_iter().chain(["/usr/share/man/man8/pinheadd.8.gz"]) {
        assert!(listed.lines().any(|line| line == file), "{file}: {listed}");
    }
    // Dependencies are not checked, because Debian's packages are not in RPM's database.
    rpm(&["--nodeps", "-i"], "1");
    let groups = fs::read_to_string(root.join("etc/group")).unwrap();
    assert!(groups.contains("\npinhead:"), "its script has run: {groups}");
    let settings = root.join("etc/pinhead/host.toml");
    fs::write(&settings, SETTINGS).unwrap();
    rpm(&["--nodeps", "-U"], "2");
    assert_eq!(fs::read_to_string(&settings).unwrap(), SETTINGS, "an upgrade keeps settings");
    assert!(rpm(&["-q"], "").contains("pinhead-0.1.0-2.x86_64"), "another version");
    rpm(&["-e"], "");
    let programs = programs.map(|file| &file[1..]);
    for file in programs.into_iter().chain(["usr/share/doc/pinhead"]) {
        assert!(!root.join(file).exists(), "{file}");
    }
    assert!(root.join("etc/pinhead/host.toml.rpmsave").exists());
}

/// Checks that the s390x package has a daemon that runs on s390x.
fn the_s390x_daemon_runs(scratch: &Path, tree: &Path) {
    let (name, files) = ("pinheadd_0.1.0-1_s390x.deb", scratch.join("s390x"));
    run(Command::new("dpkg-deb").arg("-x").arg(tree.join("packages/1").join(name)).arg(&files));
    let daemon = files.join("usr/sbin/pinheadd");
    let built = fs::read(daemon_dir().join("s390x/pinheadd")).unwrap();
    assert!(fs::read(&daemon).unwrap() == built, "not the daemon of s390x");
    let files = vec![GuestFile::text("/etc/pinheadd.args", "-v")];
    let image = ImageSpec { arch: Arch::S390x, daemon: Some(daemon), files };
    let image = image.build(&Cache::from_environment().unwrap()).unwrap();
    let accel = Accel::Emulation(WhyEmulation::Asked);
    let spec = GuestSpec::new("s390x", image, accel);
    let mut guest = Session::boot(&spec, Deadline::after(Duration::from_secs(300))).unwrap();
    assert!(sh(&mut guest, "/sbin/pinheadd -v").contains("0.1.0"));
}
