//! Starts QEMU for one guest, with every connection a socket pair.
//!
//! Sockets without names leave nothing behind, whoever dies, and no other process can open them.
//! Where others are to speak to the guest, it has a second monitor and serves the daemon's port
//! at paths in a directory; then we are one client of the port like anyone.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::identity::random_uuid;
use crate::machine::Ram;
use crate::process::Process;
use crate::sockets::{SocketFile, listen};
use crate::sys;
use crate::{Accel, Disk, Error, Held, Image, Net, Template};

/// Where the balloon is in QEMU's object tree, for its statistics.
pub const BALLOON_PATH: &str = "/machine/peripheral/balloon0";

/// What QEMU calls the daemon's port in its events.
pub(crate) const DAEMON_PORT: &str = "daemon-port";

/// A guest's name is also its host name, for which Linux has room for 64 bytes with the zero.
pub const NAME_BYTES_MAX: usize = 63;

/// How to start a guest.
#[derive(Clone, Debug)]
pub struct GuestSpec {
    /// Its name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// How its instructions are executed; see [`crate::probe_kvm`].
    pub accel: Accel,
    /// How many CPUs it has at most.
    pub cpus: u32,
    /// How much memory it has at most, in MiB.
    pub memory_mib: u64,
    /// The room for translated code under emulation, in MiB. QEMU holds what of it was used, and
    /// throws all away when it is full: in 8 a process that a guest starts costs ten times what
    /// it costs in 32, and a page of its web server three times; 16 is nearly as good as 32.
    pub translation_mib: u32,
    /// What it boots from, which also says its architecture.
    pub image: Image,
    /// More words for the kernel's command line.
    pub kernel_args: Vec<String>,
    /// Whether the guest runs commands from the control socket.
    pub ctl: bool,
    /// A directory for sockets that others may connect to: `NAME.qmp`, a second monitor, and
    /// `NAME.port`, the daemon's port, one client at a time. Whoever may enter the directory
    /// owns the guest.
    pub run_dir: Option<PathBuf>,
    /// Its network, if it has one.
    pub net: Option<Net>,
    /// Its disk, if it has one.
    pub disk: Option<Disk>,
    /// The state that it goes on from instead of booting: see [`crate::Template`]. It still needs
    /// the template's identity replaced by its own, which its daemon does.
    pub restore: Option<Template>,
    /// Whether the guest starts again when it reboots, instead of ending its QEMU.
    pub reboot: bool,
    /// Whether the guest tells the host which of its memory is free. Not on s390x, where it would
    /// wait for ever for the answer.
    pub page_reporting: bool,
}

/// A running guest. Dropping it kills its QEMU; the sockets may be moved out before.
#[derive(Debug)]
pub struct Guest {
    /// The guest's name.
    pub name: String,
    /// Its QEMU.
    pub process: Process,
    /// QEMU's monitor.
    pub qmp: UnixStream,
    /// The daemon's port, `org.pinhead.0`.
    pub port: UnixStream,
    /// The guest's console. Somebody must read it, or the guest may come to a halt.
    pub console: UnixStream,
    /// The control port, `org.pinhead.ctl.0`.
    pub ctl: Option<UnixStream>,
    /// The sockets that others may connect to.
    pub sockets: Vec<SocketFile>,
    /// The UUID that its QEMU was given, of this start alone.
    pub uuid: [u8; 16],
    /// What it waits for, if it goes on from a state.
    pub go_on: Option<GoOn>,
}

/// What a QEMU is told that goes on from a state.
#[derive(Clone, Debug)]
pub struct GoOn {
    from: String,
    has_memory: bool,
}

impl GoOn {
    /// The commands, in this order.
    pub fn commands(self) -> impl Iterator<Item = qmp::Command> {
        let files = (!self.has_memory).then_some(qmp::Command::LeaveFilesOut);
        files.into_iter().chain([qmp::Command::MigrateIncoming { uri: self.from }])
    }
}

/// The two ends of one connection under its name in QEMU.
struct Link {
    id: &'static str,
    ours: UnixStream,
    theirs: OwnedFd,
    file: Option<SocketFile>,
}

impl Link {
    fn new(id: &'static str) -> Result<Link, Error> {
        let pair = UnixStream::pair();
        let (ours, theirs) = pair.map_err(|source| Error::Channel { channel: id, source })?;
        Ok(Link { id, ours, theirs: theirs.into(), file: None })
    }

    /// One that others find at a path, with us as the first in its queue.
    fn at(id: &'static str, path: PathBuf) -> Result<Link, Error> {
        let (theirs, file) = listen(path)?;
        let ours = UnixStream::connect(file.path());
        let ours = ours.map_err(|source| Error::Channel { channel: id, source })?;
        Ok(Link { id, ours, theirs: theirs.into(), file: Some(file) })
    }

    fn chardev(&self) -> String {
        let serves = if self.file.is_some() { ",server=on,wait=off" } else { "" };
        format!("socket,id={},fd={}{serves}", self.id, self.theirs.as_raw_fd())
    }
}

impl GuestSpec {
    /// Where others find the guest's second monitor.
    pub fn qmp_path(&self) -> Option<PathBuf> {
        Some(self.run_dir.as_ref()?.join(format!("{}.qmp", self.name)))
    }

    /// Where others find the daemon's port.
    pub fn port_path(&self) -> Option<PathBuf> {
        Some(self.run_dir.as_ref()?.join(format!("{}.port", self.name)))
    }

    /// Starts the guest. It returns when QEMU's process exists, long before the guest is up; see
    /// [`Guest::check`] for a QEMU that ends at once.
    pub fn start(&self) -> Result<Guest, Error> {
        self.start_in(None)
    }

    /// Starts it with its memory in this file, which others are to see.
    pub(crate) fn start_in(&self, file: Option<&Path>) -> Result<Guest, Error> {
        self.check()?;
        let qmp = Link::new("qmp")?;
        let port = match self.port_path() {
            Some(path) => Link::at("port", path)?,
            None => Link::new("port")?,
        };
        let console = Link::new("console")?;
        let ctl = self.ctl.then(|| Link::new("ctl")).transpose()?;
        let others = self.qmp_path().map(listen).transpose()?;

        let arch = self.image.arch;
        let mut command = Command::new(arch.qemu_program());
        command.args(self.arguments());
        let uuid = random_uuid()?;
        command.arg("-uuid").arg(wire::uuid_text(&uuid));
        if let Some(disk) = &self.disk {
            disk.prepare(&self.name)?;
        }
        let state = match &self.restore {
            Some(template) => Some(template.state.reopen()?),
            None => None,
        };
        let seen = self.restore.as_ref().and_then(|template| template.memory.as_ref());
        let memory = seen.map(Held::reopen).transpose()?;
        let ram = match (&memory, file) {
            (Some(memory), _) => Ram::View(memory.as_raw_fd()),
            (None, Some(path)) => Ram::File(path),
            (None, None) => Ram::Own,
        };
        command.args(ram.arguments(self.memory_mib));
        if state.is_some() {
            sys::share_memory(&mut command);
            // What it goes on from it is told by its monitor, and before that what of it.
            command.args(["-incoming", "defer"]);
        }
        if memory.is_some() {
            let unable =
                |source| Error::Spawn { program: "a filter of system calls".into(), source };
            sys::keep_files_whole(&mut command).map_err(unable)?;
        }
        let go_on = state.as_ref().map(|state| GoOn {
            from: format!("fd:{}", state.as_raw_fd()),
            has_memory: memory.is_none(),
        });
        for link in [&qmp, &port, &console].into_iter().chain(&ctl) {
            command.arg("-chardev").arg(link.chardev());
        }
        if let Some((listener, _)) = &others {
            let fd = listener.as_raw_fd();
            command.arg("-chardev").arg(format!("socket,id=others,fd={fd},server=on,wait=off"));
            command.args(["-mon", "chardev=others,mode=control"]);
        }
        let (others, file) = others.unzip();
        let sockets = file.into_iter().chain(port.file).collect();
        let (ctl, ctl_fd) = ctl.map(|link| (link.ours, link.theirs)).unzip();
        let inherited = [qmp.theirs, port.theirs, console.theirs].into_iter().chain(ctl_fd);
        let inherited = inherited.chain(others.map(OwnedFd::from)).chain(state).chain(memory);
        let process = Process::start(command, inherited.collect());
        let process = process.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::ToolMissing {
                tool: arch.qemu_program().to_owned(),
                hint: format!("install {}", arch.qemu_package()),
            },
            _ => Error::Spawn { program: arch.qemu_program().to_owned(), source },
        })?;
        Ok(Guest {
            name: self.name.clone(),
            process,
            qmp: qmp.ours,
            port: port.ours,
            console: console.ours,
            ctl,
            sockets,
            uuid,
            go_on,
        })
    }

    /// Refuses what would mean something else on QEMU's or the kernel's command line.
    fn check(&self) -> Result<(), Error> {
        let wrong =
            |reason: &str| Err(Error::Spec { guest: self.name.clone(), reason: reason.to_owned() });
        let in_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty()
            || self.name.len() > NAME_BYTES_MAX
            || !self.name.chars().all(in_name)
        {
            return wrong("a name has 1 to 63 letters, digits, '-', '_' or '.'");
        }
        if self.cpus == 0 || self.memory_mib == 0 {
            return wrong("it needs a CPU and some memory");
        }
        if let Some(fault) = self.net.as_ref().and_then(Net::fault) {
            return wrong(&fault);
        }
        let in_word = |c: char| !c.is_whitespace() && !c.is_control();
        if !self.kernel_args.iter().all(|word| word.chars().all(in_word)) {
            return wrong("a kernel argument holds white space or control characters");
        }
        Ok(())
    }
}

/// What a guest of this name says on its console when it is up.
pub(crate) fn up_marker(name: &str) -> String {
    format!("pinhead: {name} is up")
}

impl Guest {
    /// What stands on the console when the guest is up.
    pub fn up_marker(&self) -> String {
        up_marker(&self.name)
    }

    /// Whether QEMU still runs; if not, the error says how it ended and what it said.
    pub fn check(&mut self) -> Result<(), Error> {
        let status = self.process.try_wait();
        let status = status.map_err(|source| Error::Spawn { program: "QEMU".into(), source })?;
        match status {
            None => Ok(()),
            Some(status) => Err(Error::QemuExited {
                guest: self.name.clone(),
                status,
                stderr: self.process.stderr(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{CpuStart, Host};
    use crate::tsc::{self, Rate};
    use crate::{Arch, FirstProcess, Forward, WhyEmulation};

    fn spec(arch: Arch) -> GuestSpec {
        let (kernel, initramfs) = ("/k,1".into(), "/i".into());
        let image = Image { arch, kernel, initramfs, first_process: FirstProcess::Ours };
        GuestSpec {
            name: "g1".into(),
            accel: Accel::Emulation(WhyEmulation::Asked),
            cpus: 2,
            memory_mib: 96,
            translation_mib: 8,
            image,
            kernel_args: vec!["pinhead.args=-f,/etc/rules".into()],
            ctl: true,
            run_dir: None,
            net: None,
            disk: None,
            restore: None,
            reboot: false,
            page_reporting: true,
        }
    }

    #[test]
    fn command_lines() {
        let words = |arch| {
            let tsc_rate = if arch == Arch::X86_64 { Rate::from_mhz(2596) } else { None };
            let words = spec(arch).arguments_at(Host { tsc_rate, cpus: CpuStart::InBoot });
            words.iter().map(|word| word.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let x86 = words(Arch::X86_64).join(" ");
        for part in [
            "-machine q35,hpet=off,smbus=off,sata=off -accel tcg,thread=multi,tb-size=8 -cpu max",
            "-smp 2 -m 96M",
            "virtio-balloon-pci,id=balloon0,deflate-on-oom=on,free-page-reporting=on",
            "chardev=ctl,name=org.pinhead.ctl.0 -serial chardev:console",
            "panic=-1 mitigations=off skew_tick=1 tsc_early_khz=2596000 lpj=10384000 ",
            "lpj=10384000 pinhead.name=g1 pinhead.ctl=1",
            "pinhead.args=-f,/etc/rules -mon",
        ] {
            assert!(x86.contains(part), "{part} not in {x86}");
        }
        let s390x = words(Arch::S390x).join(" ");
        assert!(s390x.contains("virtio-serial-ccw") && s390x.contains("console=ttysclp0 audit"));
        assert!(s390x.contains("free-page-reporting=off"));
        assert!(!s390x.contains("pci") && !s390x.contains("tsc"), "{s390x}");
        assert!(x86.contains("-no-reboot") && !x86.contains("net0"), "{x86}");
    }

    #[test]
    fn only_an_emulated_pc_is_told_the_rate_of_its_clock() {
        assert_eq!(spec(Arch::S390x).host().tsc_rate, None);
        let kvm = GuestSpec { accel: Accel::Kvm, ..spec(Arch::X86_64) };
        assert_eq!(kvm.host().tsc_rate, None);
        let unknown = Host { tsc_rate: None, cpus: CpuStart::InBoot };
        let unknown = spec(Arch::X86_64).arguments_at(unknown);
        assert!(!unknown.iter().any(|word| word.to_str().unwrap().contains("tsc_early_khz")));
        assert_eq!(spec(Arch::X86_64).host().tsc_rate, tsc::host_rate());
    }

    #[test]
    fn cpus_start_later_where_qemu_keeps_stale_code() {
        let is_told = |spec: &GuestSpec, cpus| {
            let words = spec.arguments_at(Host { tsc_rate: None, cpus });
            words.iter().any(|word| {
                let word = word.to_str().unwrap();
                word.contains(" maxcpus=1 noreplace-smp no_ipi_broadcast=1 pinhead.cpus=later ")
            })
        };
        let pc = spec(Arch::X86_64);
        assert!(is_told(&pc, CpuStart::Later) && !is_told(&pc, CpuStart::InBoot));
        let kvm = GuestSpec { accel: Accel::Kvm, ..pc.clone() };
        assert_eq!(kvm.host().cpus, CpuStart::InBoot, "nothing is translated");
        let single = GuestSpec { cpus: 1, ..pc.clone() };
        assert!(!is_told(&single, CpuStart::Later));
        let mut users = pc;
        users.image.first_process = FirstProcess::Users;
        assert!(!is_told(&users, CpuStart::Later), "nobody there would start them");
    }

    #[test]
    fn a_network_and_a_reboot_are_words() {
        let mut spec = spec(Arch::X86_64);
        let forwards = vec![Forward { host_port: 18003, guest_port: 80 }];
        spec.net = Some(Net { number: 3, forwards });
        spec.reboot = true;
        let words = spec.arguments();
        let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        let line = words.join(" ");
        for part in [
            "hostfwd=tcp:127.0.0.1:18003-10.1.0.3:80 ",
            "netdev=net0,mac=52:54:00:00:00:03,romfile=,guest_announce=off ",
            "ipv6.disable=1 pinhead.ip=10.1.0.3 pinhead.reboot=1",
            "-device pvpanic-pci -action panic=exit-failure",
        ] {
            assert!(line.contains(part), "{part} not in {line}");
        }
        assert!(!line.contains("-no-reboot"), "{line}");
    }

    #[test]
    fn what_would_change_a_command_line_is_refused() {
        let check = |change: fn(&mut GuestSpec)| {
            let mut spec = spec(Arch::X86_64);
            change(&mut spec);
            assert!(matches!(spec.start(), Err(Error::Spec { .. })), "{spec:?}");
        };
        check(|spec| spec.name = "a,debug-threads=on".into());
        check(|spec| spec.name = "a b".into());
        check(|spec| spec.name = "a".repeat(64));
        check(|spec| spec.name.clear());
        check(|spec| spec.cpus = 0);
        check(|spec| spec.memory_mib = 0);
        check(|spec| spec.net = Some(Net { number: u32::MAX, forwards: Vec::new() }));
        check(|spec| spec.kernel_args.push("init=/bin/sh rw".into()));
    }
}
