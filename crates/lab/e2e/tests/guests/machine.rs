//! Real guests of both architectures. Every operation of pinhead on a guest must work.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use e2e::{PATIENCE, soon};
use qmp::Reply;
use vm::images::{Arch, Cache, FirstProcess, GuestFile, Image, ImageSpec};
use vm::{Accel, Console, Error, GuestSpec, Session, WhyEmulation, wait_for_exit};

const MIB: u64 = 1 << 20;

/// Replacement for the daemon, which first prints its arguments and then echoes each line.
const FAKE_DAEMON: &str = "#!/bin/sh\n\
    exec 3<> /dev/virtio-ports/org.pinhead.0\n\
    echo \"hello $*\" >&3\n\
    while read -r line <&3; do echo \"got $line\" >&3; done\n";

fn cache() -> Cache {
    Cache::from_environment().unwrap()
}

fn spec(name: &str, image: Image) -> GuestSpec {
    GuestSpec {
        cpus: 2,
        kernel_args: vec!["pinhead.args=-x,2".to_owned()],
        ..GuestSpec::new(name, image, Accel::Emulation(WhyEmulation::Asked))
    }
}

/// Boots a guest with the fake daemon and one additional file.
fn boot(name: &str, arch: Arch) -> Session {
    let dir = e2e::scratch("daemon");
    let daemon = dir.join("pinheadd");
    std::fs::write(&daemon, FAKE_DAEMON).unwrap();
    let files =
        vec![GuestFile { path: "/etc/extra/note".into(), mode: 0o600, bytes: b"note".into() }];
    let image = ImageSpec { arch, daemon: Some(daemon), files }.build(&cache()).unwrap();
    let clock = soon();
    let session =
        Session::boot(&spec(name, image), clock).unwrap_or_else(|error| panic!("{error}"));
    println!("{name} is up after {:?}", clock.elapsed());
    session
}

fn meminfo_kib(session: &mut Session, field: &str) -> u64 {
    let text = session.sh(&format!("grep ^{field}: /proc/meminfo"), soon()).unwrap();
    text.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

fn check_life(session: &mut Session) {
    assert_eq!(session.sh("hostname", soon()).unwrap().trim(), session.name);
    assert_eq!(session.sh("cat /etc/extra/note", soon()).unwrap(), "note");
    let failed = session.ctl.as_mut().unwrap().run("echo out; echo err >&2; exit 3", soon());
    let failed = failed.unwrap();
    assert_eq!((failed.code, failed.text.as_str()), (3, "out\nerr\n"));
    for resource in ["cpu", "memory", "io"] {
        let text = session.sh(&format!("cat /proc/pressure/{resource}"), soon()).unwrap();
        assert!(text.starts_with("some avg10="), "{text}");
    }
    let Reply::Vcpus(vcpus) = session.monitor.call(qmp::Command::QueryCpusFast, soon()).unwrap()
    else {
        panic!("no list of CPUs");
    };
    assert_eq!(vcpus.len(), 2);
    for vcpu in vcpus {
        let task = format!("/proc/{}/task/{}", session.process.id(), vcpu.tid);
        assert!(PathBuf::from(task).exists(), "CPU {} has no thread", vcpu.index);
    }
}

fn check_daemon(session: &mut Session) {
    session.port.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut lines = BufReader::new(session.port.try_clone().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    assert_eq!(line(), "hello -x 2");
    session.port.write_all(b"ping\n").unwrap();
    assert_eq!(line(), "got ping");
    session.sh("kill -9 $(pidof pinheadd)", soon()).unwrap();
    session.sh("while pidof pinheadd; do usleep 100000; done", soon()).unwrap();
    session.sh("echo again > /etc/pinheadd.args; start-pinheadd &", soon()).unwrap();
    assert_eq!(line(), "hello again");
}

fn check_cpu_goes_and_comes(session: &mut Session, cpu: u32) {
    let online = "cat /sys/devices/system/cpu/online";
    let switch = |state| format!("echo {state} > /sys/devices/system/cpu/cpu{cpu}/online");
    assert_eq!(session.sh(online, soon()).unwrap().trim(), "0-1");
    session.sh(&switch(0), soon()).unwrap();
    assert_eq!(session.sh(online, soon()).unwrap().trim(), (1 - cpu).to_string());
    session.sh(&switch(1), soon()).unwrap();
    assert_eq!(session.sh(online, soon()).unwrap().trim(), "0-1");
}

fn balloon_bytes(session: &mut Session) -> u64 {
    match session.monitor.call(qmp::Command::QueryBalloon, soon()).unwrap() {
        Reply::Balloon { actual_bytes } => actual_bytes,
        other => panic!("not a balloon: {other:?}"),
    }
}

/// Checks that the balloon inflates with free memory, leaves MemTotal unchanged, and deflates
/// before a process is killed.
fn check_balloon(session: &mut Session) {
    let total_kib = meminfo_kib(session, "MemTotal");
    let free_kib = meminfo_kib(session, "MemFree");
    assert_eq!(balloon_bytes(session), 128 * MIB);
    let shrink = qmp::Command::Balloon { value_bytes: 88 * MIB };
    session.monitor.call(shrink, soon()).unwrap();
    let limit_kib = free_kib - 36 * 1024;
    let settled = format!(
        "while [ $(awk '/^MemFree:/ {{ print $2 }}' /proc/meminfo) -gt {limit_kib} ]; \
         do usleep 100000; done"
    );
    session.sh(&settled, soon()).unwrap();
    assert_eq!(meminfo_kib(session, "MemTotal"), total_kib);

    // The file needs more than the remaining memory. The balloon must therefore deflate, and no
    // process may be killed.
    let blocks = (meminfo_kib(session, "MemAvailable") + 16 * 1024) / 64;
    let fill = format!("dd if=/dev/zero of=/dev/shm/fill bs=64k count={blocks} 2>&1");
    session.sh(&fill, soon()).unwrap();
    let kept_bytes = balloon_bytes(session);
    assert!(kept_bytes > 88 * MIB, "the guest still keeps {kept_bytes} bytes only");
    let kills = session.sh("dmesg | grep -ci 'killed process' || :", soon()).unwrap();
    assert_eq!(kills.trim(), "0");
    session.sh("rm /dev/shm/fill", soon()).unwrap();
}

fn quit(mut session: Session) {
    session.monitor.call(qmp::Command::Quit, soon()).unwrap();
    let status = session.process.wait(soon()).unwrap().unwrap();
    assert!(status.success(), "{status}: {}", session.process.stderr());
}

#[test]
fn x86_64() {
    let _share = e2e::share(1);
    let mut session = boot("x86", Arch::X86_64);
    check_life(&mut session);
    check_daemon(&mut session);
    check_cpu_goes_and_comes(&mut session, 1);
    check_balloon(&mut session);
    quit(session);
}

/// Checks what the kernel reports about the levels above the guest.
fn check_levels(session: &mut Session) {
    let text = session.sh("cat /proc/sysinfo", soon()).unwrap();
    let levels = zmon::sysinfo::levels(&text);
    println!("{levels:#?}");
    let names: Vec<&str> = levels.iter().map(|level| level.what.as_str()).collect();
    assert!(names.starts_with(&["machine"]) && names.len() > 1, "{names:?} in\n{text}");
    // The level directly above the guest is its hypervisor, with the guest's CPUs.
    let last = levels.last().unwrap();
    assert!(last.what.contains("KVM"), "{names:?} in\n{text}");
    let cpus = session.sh("grep -c ^cpu[0-9] /proc/stat", soon()).unwrap();
    assert_eq!(last.configured, cpus.trim().parse().ok(), "{text}");
}

#[test]
fn s390x() {
    let _share = e2e::share(1);
    let mut session = boot("s390x", Arch::S390x);
    check_life(&mut session);
    check_daemon(&mut session);
    check_levels(&mut session);
    // On this architecture the first CPU can go offline as well.
    check_cpu_goes_and_comes(&mut session, 0);
    check_cpu_goes_and_comes(&mut session, 1);

    let total_kib = meminfo_kib(&mut session, "MemTotal");
    let free_kib = meminfo_kib(&mut session, "MemFree");
    let pages = "/proc/sys/vm/cmm_pages";
    assert_eq!(session.sh(&format!("cat {pages}"), soon()).unwrap().trim(), "0");
    session
        .sh(
            &format!("echo 4096 > {pages}; until grep -qx 4096 {pages}; do usleep 100000; done"),
            soon(),
        )
        .unwrap();
    assert_eq!(meminfo_kib(&mut session, "MemTotal"), total_kib);
    let taken_kib = free_kib.saturating_sub(meminfo_kib(&mut session, "MemFree"));
    assert!((14_000..20_000).contains(&taken_kib), "CMM took {taken_kib} KiB for 16384");
    session
        .sh(&format!("echo 0 > {pages}; until grep -qx 0 {pages}; do usleep 100000; done"), soon())
        .unwrap();
    check_balloon(&mut session);
    quit(session);
}

/// The test runs itself once more. The copy starts a guest and is killed.
#[test]
fn a_killed_parent_takes_qemu_with_it() {
    let _share = e2e::share(1);
    const COPY: &str = "FARM_TEST_IS_THE_COPY";
    let image = ImageSpec { arch: Arch::X86_64, daemon: None, files: vec![] };
    let image = image.build(&cache()).unwrap();
    if std::env::var_os(COPY).is_some() {
        let guest = spec("orphan", image).start().unwrap();
        println!("\nqemu={}", guest.process.id());
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        panic!("the copy was not killed");
    }
    let mut copy = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "machine::a_killed_parent_takes_qemu_with_it", "--nocapture"])
        .env(COPY, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(copy.stdout.take().unwrap()).lines();
    let pid: u32 = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("qemu=")?.parse().ok())
        .expect("the copy prints its guest's process id");
    let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(command_line.starts_with(b"qemu-system-x86_64\0"));
    copy.kill().unwrap();
    copy.wait().unwrap();
    assert!(wait_for_exit(pid, PATIENCE).unwrap(), "QEMU {pid} is an orphan");
}

#[test]
fn the_reason_of_a_qemu_that_ends_at_once_is_reported() {
    let dir = e2e::scratch("broken");
    let text = dir.join("kernel");
    let image = Image {
        arch: Arch::X86_64,
        kernel: text.clone(),
        initramfs: text.clone(),
        first_process: FirstProcess::Ours,
    };
    let error = Session::boot(&spec("broken", image.clone()), soon()).unwrap_err();
    assert!(error.to_string().contains(&text.display().to_string()), "{error}");
    std::fs::write(&text, "this is no kernel").unwrap();
    let error = Session::boot(&spec("broken", image), soon()).unwrap_err();
    assert!(matches!(error, Error::QemuExited { .. }), "{error:?}");
    assert!(error.to_string().contains("kernel"), "{error}");
}

#[test]
fn a_guest_that_does_not_come_up_shows_its_console() {
    let _share = e2e::share(1);
    let image = ImageSpec { arch: Arch::X86_64, daemon: None, files: vec![] };
    let mut spec = spec("mute", image.build(&cache()).unwrap());
    spec.kernel_args.push("rdinit=/bin/false".to_owned());
    let error = Session::boot(&spec, soon()).unwrap_err();
    // The kernel panics. QEMU exits then, and does not reboot.
    assert!(matches!(&error, Error::QemuExited { status, .. } if status.success()), "{error:?}");
}

#[test]
fn guest_ends_with_the_reason_when_its_image_does_not_fit() {
    let _share = e2e::share(1);
    // An image is unpacked into half of the remaining free memory, whether it is compressed or not.
    let big = GuestFile { path: "/var/big".into(), mode: 0o600, bytes: vec![1; 96 << 20] };
    let image = ImageSpec { arch: Arch::X86_64, daemon: None, files: vec![big] };
    let image = image.build(&cache()).unwrap();
    let archive = image.initramfs.clone();
    let spec = GuestSpec { memory_mib: 192, ..spec("full", image) };
    let mut guest = spec.start().unwrap();
    let console = Console::start(guest.console).unwrap();
    let said = console.wait_for("the image does not fit into the memory", soon());
    said.unwrap_or_else(|error| panic!("{error}: {}", console.text()));
    assert!(guest.process.wait(soon()).unwrap().unwrap().success());
    std::fs::remove_file(archive).unwrap();
}
