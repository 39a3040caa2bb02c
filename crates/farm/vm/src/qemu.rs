//! Start of QEMU for one guest, with a socket pair for every connection.
//!
//! Sockets without names leave nothing behind, whichever process dies, and cannot be opened by
//! other processes. If a guest has a directory for sockets, its QEMU also has a second monitor and
//! the daemon's port at paths in this directory. This process is then one of several possible
//! clients of the port.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::devices::{DeviceFile, state_file, state_words};
use crate::identity::random_uuid;
use crate::images;
use crate::machine::Ram;
use crate::opened::Opened;
use crate::process::Process;
use crate::rights::Rights;
use crate::sockets::{SocketFile, listen};
use crate::sys::Holes;
use crate::{Error, GuestSpec, Held, Net, NetLink, sys};

/// A running guest. On drop its QEMU is killed. The sockets may be moved out of the struct before
/// the drop.
#[derive(Debug)]
pub struct Guest {
    /// Name of the guest.
    pub name: String,
    /// QEMU process of the guest.
    pub process: Process,
    /// QEMU's monitor.
    pub qmp: UnixStream,
    /// The daemon's port, `org.pinhead.0`.
    pub port: UnixStream,
    /// The guest's console, which must be read, because the guest may block on a full console.
    pub console: UnixStream,
    /// The control port, `org.pinhead.ctl.0`.
    pub ctl: Option<UnixStream>,
    /// Sockets for the frames of a linked guest.
    pub link: Option<NetLink>,
    /// The file of the daemon's port, if other processes may connect to it.
    pub port_file: Option<SocketFile>,
    /// The file of the second monitor.
    pub monitor_file: Option<SocketFile>,
    /// UUID passed to QEMU, different at each start.
    pub uuid: [u8; 16],
    /// The state to load, if the guest starts from a saved state.
    pub go_on: Option<GoOn>,
    /// File for the state of the guest's devices, if QEMU was started with such a file.
    pub devices: Option<DeviceFile>,
}

/// The memory and state that a QEMU starts with.
enum Begin<'a> {
    /// Memory and state from the guest's specification.
    Usual,
    /// Memory in this file, shared with other processes.
    In(File),
    /// The template's memory, and the device state to load once the guest's own pages are in place.
    Resumed(&'a [u8]),
}

/// A saved state for a QEMU to load.
#[derive(Clone, Debug)]
pub struct GoOn {
    from: String,
    has_memory: bool,
}

impl GoOn {
    /// Returns the commands that load the state, in the order in which they must be sent.
    pub fn commands(self) -> impl Iterator<Item = qmp::Command> {
        let files = (!self.has_memory).then_some(qmp::Command::LeaveFilesOut);
        files.into_iter().chain([qmp::Command::MigrateIncoming { uri: self.from }])
    }
}

/// The two ends of one connection, with the connection's name in QEMU.
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

    /// Listens at a path for other processes, and connects as the first client in the queue.
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
    /// Starts the guest. The call returns once QEMU's process exists, long before the guest is up.
    /// Use [`Process::check`] to notice a QEMU that exits at once.
    pub fn start(&self) -> Result<Guest, Error> {
        self.begin(Begin::Usual)
    }

    /// Starts a QEMU for a suspended guest, which is a clone. The started QEMU has the template's
    /// memory. The guest does not run until its own pages are in place and the commands to continue
    /// were sent. The guest must not be reset, because the saved state does not contain the
    /// firmware.
    pub fn start_resumed(&self, devices: &[u8]) -> Result<Guest, Error> {
        if self.restore.as_ref().is_none_or(|template| template.memory.is_none()) {
            let reason = "only a clone that shares its template's memory is resumed".to_owned();
            return Err(Error::Spec { guest: self.name.clone(), reason });
        }
        self.begin(Begin::Resumed(devices))
    }

    /// Starts the guest with its memory in this file, shared with other processes.
    pub(crate) fn start_in(&self, file: Option<File>) -> Result<Guest, Error> {
        self.begin(file.map_or(Begin::Usual, Begin::In))
    }

    fn begin(&self, begin: Begin<'_>) -> Result<Guest, Error> {
        self.check()?;
        let no_devices = |source| Error::Channel { channel: "devices", source };
        let devices = self.suspends.then(DeviceFile::new).transpose().map_err(no_devices)?;
        let qmp = Link::new("qmp")?;
        let port = match self.port_path() {
            Some(path) => Link::at("port", path)?,
            None => Link::new("port")?,
        };
        let console = Link::new("console")?;
        let ctl = self.ctl.then(|| Link::new("ctl")).transpose()?;
        let others = self.qmp_path().map(listen).transpose()?;

        let arch = self.image.arch;
        let rights = Rights::of(self);
        let opened = Opened::of(self, rights.users.is_some())?;
        let mut command = Command::new(arch.qemu_program());
        command.args(opened.words).args(opened.spec.arguments());
        let uuid = random_uuid()?;
        command.arg("-uuid").arg(wire::uuid_text(&uuid));
        let restore = self.restore.as_ref();
        let is_resumed = matches!(begin, Begin::Resumed(_));
        let state = match &begin {
            Begin::Resumed(state) => Some(state_file(state).map_err(no_devices)?),
            _ => restore.map(|template| template.state.reopen()).transpose()?,
        };
        let memory = restore.and_then(|template| template.memory.as_ref());
        let memory = memory.map(Held::reopen).transpose()?;
        let ram = match (memory, begin) {
            (Some(memory), _) => Ram::View(memory),
            (None, Begin::In(file)) => Ram::File(file),
            (None, _) => Ram::Own,
        };
        command.args(ram.arguments(self.memory_mib));
        if is_resumed {
            // A saved state that contains only devices has no section about the machine.
            command.args(["-global", "migration.send-configuration=off"]);
        }
        if state.is_some() {
            sys::share_memory(&mut command);
            // The monitor first gets the options for the state, and then the state.
            command.args(["-incoming", "defer"]);
        }
        let has_memory = !matches!(ram, Ram::View(_));
        give_up(&mut command, rights, &ram)?;
        let go_on = state.as_ref().map(|state| {
            let (words, from) = state_words(arch, state);
            command.args(words.into_iter().flatten());
            GoOn { from, has_memory }
        });
        for link in [&qmp, &port, &console].into_iter().chain(&ctl) {
            command.arg("-chardev").arg(link.chardev());
        }
        if let Some((listener, _)) = &others {
            let fd = listener.as_raw_fd();
            command.arg("-chardev").arg(format!("socket,id=others,fd={fd},server=on,wait=off"));
            command.args(["-mon", "chardev=others,mode=control"]);
        }
        let linked = self.net.as_ref().is_some_and(|net| net.linked);
        let (link, link_fds) = linked.then(NetLink::new).transpose()?.unzip();
        if let Some([guest, network]) = &link_fds {
            for backend in Net::link_backends(guest.as_raw_fd(), network.as_raw_fd()) {
                command.arg("-netdev").arg(backend);
            }
        }
        let (others, monitor_file) = others.unzip();
        let (ctl, ctl_fd) = ctl.map(|link| (link.ours, link.theirs)).unzip();
        let inherited = [qmp.theirs, port.theirs, console.theirs].into_iter().chain(ctl_fd);
        let inherited = inherited.chain(others.map(OwnedFd::from)).chain(state.map(OwnedFd::from));
        let inherited = inherited.chain(link_fds.into_iter().flatten());
        let (devices, given) = devices.map(|(file, given, words)| (file, (given, words))).unzip();
        let (given, words) = given.unzip();
        command.args(words.iter().flatten());
        let inherited = inherited.chain(opened.files).chain(given).collect();
        let stdin = match ram {
            Ram::Own => Stdio::null(),
            Ram::File(memory) | Ram::View(memory) => memory.into(),
        };
        let started = Process::start_reading(stdin, command, inherited);
        let process = started.map_err(|source| {
            let hint = format!("install {}", arch.qemu_package());
            images::not_started(arch.qemu_program().as_ref(), &hint, source)
        })?;
        Ok(Guest {
            name: self.name.clone(),
            process,
            qmp: qmp.ours,
            port: port.ours,
            console: console.ours,
            ctl,
            link,
            port_file: port.file,
            monitor_file,
            uuid,
            go_on,
            devices,
        })
    }
}

/// Environment variables that QEMU needs. All other variables are withheld, in case a guest breaks
/// out.
const ENVIRONMENT: [&str; 2] = ["PATH", "LD_LIBRARY_PATH"];

/// Prepares a QEMU command that has only the rights it needs.
fn give_up(command: &mut Command, rights: Rights, ram: &Ram) -> Result<(), Error> {
    // Another user cannot write into this user's TMPDIR, so QEMU then uses another directory.
    let own = rights.users.is_none().then_some("TMPDIR");
    let kept = ENVIRONMENT.into_iter().chain(own);
    let kept = kept.filter_map(|name| Some((name, std::env::var_os(name)?)));
    command.env_clear().envs(kept);
    // QEMU's user may have no access to the current directory. Every file is passed to QEMU open,
    // or by an absolute path.
    command.current_dir("/");
    sys::give_up_rights(command, rights);
    let holes = match ram {
        Ram::Own => return Ok(()),
        Ram::File(_) => Holes::Punched,
        Ram::View(_) => Holes::Pretended,
    };
    sys::memory_is_stdin(command, holes).map_err(|source| {
        images::Error::Spawn { program: "a filter of system calls".into(), source }.into()
    })
}
