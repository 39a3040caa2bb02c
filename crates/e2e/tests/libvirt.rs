//! A real libvirt with a real guest: found, watched, asked, hung, and destroyed under our eyes.
//!
//! The daemon is a user's own (`qemu:///session`) with all its directories in one that is removed
//! afterwards, so nothing of the machine's libvirt is touched. It takes itself for the system's
//! when it runs as root: then the test gives it to the user `nobody`. A guest that outlives a test
//! which was killed switches itself off.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use counters::Bytes;
use farm::{Arch, Cache, Clock, Deadline, GuestFile, ImageSpec, Process};
use hypervisor::{Event, Found, Hypervisor, Id, IdSource, Libvirt, ProcessId, RunState};
use rustix::event::{PollFd, PollFlags};

/// Under emulation on a busy machine a boot may take many times its usual five seconds.
const PATIENCE: Duration = Duration::from_secs(180);

/// Who owns nothing.
const NOBODY: u32 = 65534;

const NAME: &str = "lv1";
const MIB: u64 = 1 << 20;

/// A daemon of its own below a directory of its own.
struct Daemon {
    dir: PathBuf,
    is_root: bool,
    process: Process,
}

impl Daemon {
    fn start() -> Daemon {
        let dir = std::env::temp_dir().join(format!("pinhead-libvirt-{}", std::process::id()));
        let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
        fs::create_dir_all(dir.join("config/libvirt")).unwrap();
        fs::create_dir_all(dir.join("run")).unwrap();
        // Output goes to files, or the daemon starts another one that writes it.
        fs::write(dir.join("config/libvirt/qemu.conf"), "stdio_handler = \"file\"\n").unwrap();
        for path in ["", "config", "config/libvirt", "run"] {
            let path = dir.join(path);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            if is_root {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let process = spawn(&dir, is_root);
        Daemon { dir, is_root, process }
    }

    fn runtime_dir(&self) -> PathBuf {
        self.dir.join("run")
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
    }

    fn start_again(&mut self) {
        self.process = spawn(&self.dir, self.is_root);
    }

    fn try_virsh(&self, words: &[&str]) -> Output {
        let socket = self.dir.join("run/libvirt/libvirt-sock");
        let uri = format!("qemu+unix:///session?socket={}", socket.display());
        Command::new("virsh").args(["-q", "-c", &uri]).args(words).output().unwrap()
    }

    fn virsh(&self, words: &[&str]) {
        let output = self.try_virsh(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "virsh {words:?}: {error}\n{}", self.log());
    }

    fn log(&self) -> String {
        let log = self.dir.join(format!("cache/libvirt/qemu/log/{NAME}.log"));
        let log = fs::read_to_string(log).unwrap_or_default();
        let console = fs::read(self.dir.join("console")).unwrap_or_default();
        format!("{}\n{log}\n{}", self.process.stderr(), String::from_utf8_lossy(&console))
    }

    fn console(&self) -> String {
        let console = fs::read(self.dir.join("console")).unwrap_or_default();
        String::from_utf8_lossy(&console).into_owned()
    }

    /// Has a domain run from copies of an image that its user may read.
    fn create_domain(&self) {
        let load = "sleep 170\npoweroff -f\n".as_bytes().to_vec();
        let files = vec![GuestFile { path: "/etc/load.sh".into(), mode: 0o755, bytes: load }];
        let spec = ImageSpec { arch: Arch::X86_64, daemon: None, files };
        let image = spec.build(&Cache::from_environment().unwrap()).unwrap();
        for (from, to) in [(image.kernel, "kernel"), (image.initramfs, "initrd")] {
            fs::copy(from, self.dir.join(to)).unwrap();
            let readable = fs::Permissions::from_mode(0o644);
            fs::set_permissions(self.dir.join(to), readable).unwrap();
        }
        let xml = self.dir.join("domain.xml");
        fs::write(&xml, domain_xml(&self.dir)).unwrap();
        self.virsh(&["create", xml.to_str().unwrap()]);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.try_virsh(&["destroy", NAME]);
        let _ = self.process.kill();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn spawn(dir: &Path, is_root: bool) -> Process {
    let mut command = Command::new(if is_root { "setpriv" } else { "libvirtd" });
    if is_root {
        command.args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}")]);
        // Who changes its user outlives us unless it says again that it does not want to.
        command.args(["--clear-groups", "--pdeathsig", "KILL", "libvirtd"]);
    }
    command.arg("--pid-file").arg(dir.join("run/daemon.pid"));
    for (name, below) in [
        ("HOME", "home"),
        ("XDG_RUNTIME_DIR", "run"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_DATA_HOME", "data"),
        ("XDG_STATE_HOME", "state"),
    ] {
        command.env(name, dir.join(below));
    }
    Process::start(command, Vec::new()).unwrap()
}

fn domain_xml(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "<domain type='qemu'><name>{NAME}</name><memory unit='MiB'>256</memory>
        <vcpu current='1'>2</vcpu>
        <os><type arch='x86_64' machine='q35'>hvm</type>
        <kernel>{dir}/kernel</kernel><initrd>{dir}/initrd</initrd>
        <cmdline>console=ttyS0 quiet panic=-1 mitigations=off pinhead.name={NAME}</cmdline></os>
        <features><acpi/></features><on_reboot>restart</on_reboot>
        <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
        <controller type='usb' model='none'/>
        <serial type='file'><source path='{dir}/console'/></serial>
        <channel type='unix'><source mode='bind' path='{dir}/port'/>
        <target type='virtio' name='org.pinhead.0'/></channel>
        <memballoon model='virtio' autodeflate='on' freePageReporting='on'/>
        </devices></domain>"
    )
}

/// The manager's side.
struct Watch {
    clock: Clock,
    libvirt: Libvirt,
    seen: Vec<Event>,
}

impl Watch {
    fn new(daemon: &Daemon) -> Watch {
        let libvirt = Libvirt::session(&daemon.runtime_dir(), IdSource::new());
        Watch { clock: Clock::new(), libvirt, seen: Vec::new() }
    }

    /// One turn, after waiting for something to come, but not for long: what is waited for may
    /// be no event.
    fn turn(&mut self) {
        const WAIT_MAX_MS: u64 = 50;
        let mut fds = Vec::new();
        self.libvirt.fds(&mut fds);
        let mut polls: Vec<_> =
            fds.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        let wait_ms = self.libvirt.next_ms().saturating_sub(self.clock.ms()).min(WAIT_MAX_MS);
        let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: wait_ms as i64 * 1_000_000 };
        rustix::event::poll(&mut polls, Some(&timeout)).unwrap();
        let ready: Vec<PollFlags> = polls.iter().map(PollFd::revents).collect();
        self.libvirt.turn(&ready, self.clock.ms(), &mut self.seen);
    }

    /// Waits for an event and takes it, with all before it.
    fn until<T>(&mut self, what: &str, daemon: &Daemon, so: impl Fn(&Event) -> Option<T>) -> T {
        let deadline = Deadline::after(PATIENCE);
        loop {
            let found = self.seen.iter().enumerate().find_map(|(at, e)| Some((at, so(e)?)));
            if let Some((at, it)) = found {
                self.seen.drain(..=at);
                println!("{:>6} ms: {what}", self.clock.ms());
                return it;
            }
            assert!(deadline.remaining().is_some(), "{what}: {:#?}\n{}", self.seen, daemon.log());
            self.turn();
        }
    }

    fn expect(&mut self, event: Event, daemon: &Daemon) {
        self.until(&format!("{event:?}"), daemon, |seen| (*seen == event).then_some(()));
    }

    fn until_found(&mut self, daemon: &Daemon) -> (Id, Found) {
        self.until("found", daemon, |event| match event {
            Event::Found(id, found) => Some((*id, (**found).clone())),
            _ => None,
        })
    }

    fn until_booted(&mut self, times: usize, daemon: &Daemon) {
        let deadline = Deadline::after(PATIENCE);
        while daemon.console().matches("pinhead: lv1 is up").count() < times {
            assert!(deadline.remaining().is_some(), "no boot\n{}", daemon.log());
            self.turn();
        }
        println!("{:>6} ms: booted {times}", self.clock.ms());
    }
}

fn signal(process: ProcessId, name: &str) {
    let status = Command::new("kill").args(["-s", name, &process.pid.to_string()]).status();
    assert!(status.unwrap().success());
}

/// What is missing of what the test needs.
fn missing() -> Option<&'static str> {
    let is_there = |name: &&str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
    };
    ["libvirtd", "virsh", "setpriv"].into_iter().find(|name| !is_there(name))
}

#[test]
fn a_guest_of_libvirt_is_found_ballooned_and_destroyed_under_our_eyes() {
    if let Some(program) = missing() {
        println!("skipped: there is no {program}; `scripts/setup test` installs it");
        return;
    }
    let mut daemon = Daemon::start();
    let mut watch = Watch::new(&daemon);
    // Its socket comes when it is ready; until then there is a sentence, and another attempt.
    let sentence = watch.until("a sentence before it listens", &daemon, |event| match event {
        Event::Trouble(sentence) => Some(sentence.clone()),
        _ => None,
    });
    assert!(sentence.contains("systemctl start libvirtd"), "{sentence}");
    let listens = Deadline::after(PATIENCE);
    while !daemon.try_virsh(&["list"]).status.success() {
        assert!(listens.remaining().is_some(), "{}", daemon.log());
        watch.turn();
    }
    daemon.create_domain();
    let (id, found) = watch.until_found(&daemon);
    assert_eq!((found.name.as_str(), found.memory), (NAME, Bytes(256 * MIB)));
    assert!(found.can.balloon && found.can.statistics && found.can.port && found.can.cpu_hotplug);
    assert_eq!((found.can.deflate_on_oom, found.can.page_reporting), (Some(true), Some(true)));
    assert_eq!(found.port, Some(daemon.dir.join("port")));
    assert_eq!(found.vcpu_tids.len(), 1, "one of two CPUs is there");
    let process = found.process.expect("its process");
    assert!(process.is_alive());
    watch.until_booted(1, &daemon);

    watch.libvirt.set_target(id, Bytes(160 * MIB), watch.clock.ms());
    watch.expect(Event::Taken(id, Bytes(160 * MIB)), &daemon);
    watch.expect(Event::Actual(id, Bytes(160 * MIB)), &daemon);
    watch.libvirt.ask_stats(id, watch.clock.ms());
    let stats = watch.until("statistics", &daemon, |event| match event {
        Event::Stats(_, stats) => Some(*stats),
        _ => None,
    });
    assert!(stats.updated_s > 1_700_000_000, "{stats:?}");
    for size in [stats.total, stats.free, stats.available] {
        assert!(size.is_some_and(|size| size.0 > MIB && size.0 < 256 * MIB), "{stats:?}");
    }
    watch.libvirt.set_target(id, Bytes(1024 * MIB), watch.clock.ms());
    let why = watch.until("refusal", &daemon, |event| match event {
        Event::Refused(_, why) => Some(why.clone()),
        _ => None,
    });
    assert!(why.contains("memory"), "{why}");

    daemon.virsh(&["suspend", NAME]);
    watch.expect(Event::State(id, RunState::Paused), &daemon);
    daemon.virsh(&["resume", NAME]);
    watch.expect(Event::State(id, RunState::Running), &daemon);

    let xml = String::from_utf8(daemon.try_virsh(&["dumpxml", NAME]).stdout).unwrap();
    let polled = xml.lines().find(|line| line.contains("period=") && !line.contains("'0'"));
    assert!(xml.contains("memballoon") && polled.is_none(), "still polled: {polled:?}");

    // A hypervisor that hangs, and goes on.
    signal(process, "STOP");
    watch.libvirt.set_target(id, Bytes(200 * MIB), watch.clock.ms());
    watch.expect(Event::Answers(id, false), &daemon);
    signal(process, "CONT");
    watch.expect(Event::Answers(id, true), &daemon);

    // A daemon that is killed and started again: the guest is the same.
    daemon.kill();
    watch.expect(Event::Answers(id, false), &daemon);
    daemon.start_again();
    watch.expect(Event::Answers(id, true), &daemon);

    daemon.virsh(&["reset", NAME]);
    watch.expect(Event::Rebooted(id), &daemon);

    daemon.virsh(&["destroy", NAME]);
    watch.expect(Event::Gone(id, "it was destroyed".into()), &daemon);
    daemon.create_domain();
    let (again, anew) = watch.until_found(&daemon);
    assert!(again != id && anew.process != found.process);
    // It crashes, as it were.
    signal(anew.process.expect("its process"), "KILL");
    let gone = watch.until("the end of a crash", &daemon, |event| match event {
        Event::Gone(gone, _) => Some(*gone),
        _ => None,
    });
    assert_eq!(gone, again);
}
