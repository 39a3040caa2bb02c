//! What a QEMU answers when it is asked what it is.

use std::path::{Path, PathBuf};

use counters::Bytes;
use qmp::{Chardev, Command, Failure, Property, Reply, Value};

use super::link::{Link, Purpose};
use super::state;
use crate::{Capabilities, Found, Owner, ProcessId, ProcessView, RunState};

/// The longest name that is kept; what is behind is cut off.
const NAME_BYTES_MAX: usize = 255;
/// Serial ports that are asked for their names. QEMU's own bus has room for 31.
const PORTS_MAX: usize = 8;
/// The name of the daemon's port.
const PORT_NAME: &str = "org.pinhead.0";
/// Where QEMU keeps the devices that were given an id, and those that were not.
const DEVICES: [&str; 2] = ["/machine/peripheral", "/machine/peripheral-anon"];

/// A virtio-serial port.
#[derive(Debug, Default)]
struct SerialPort {
    is_ours: bool,
    chardev: Option<String>,
}

/// The answers so far.
#[derive(Debug, Default)]
pub(super) struct Probe {
    name: Option<String>,
    uuid: [u8; 16],
    memory: Option<u64>,
    actual: Option<u64>,
    /// Memory that the balloon does not count. A QEMU that cannot be asked has none.
    beside: u64,
    status: Option<qmp::RunState>,
    is_moving: bool,
    vcpu_tids: Vec<u32>,
    chardevs: Vec<Chardev>,
    balloon: Option<String>,
    statistics: bool,
    deflate_on_oom: Option<bool>,
    page_reporting: Option<bool>,
    ports: Vec<SerialPort>,
}

/// Who listens on a monitor's socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listener {
    /// Whose the socket is.
    pub(super) owner: Owner,
    /// As whom the listener runs.
    pub(super) user: Option<Owner>,
    pub(super) process: Option<ProcessId>,
}

/// The result, when everything was answered.
#[derive(Debug)]
pub(super) struct Probed {
    pub(super) found: Found,
    /// Where the balloon is in QEMU's tree.
    pub(super) balloon: Option<String>,
    /// Memory that it does not count.
    pub(super) beside: Bytes,
    /// How it runs, apart from whether it moves.
    pub(super) run: RunState,
    pub(super) is_moving: bool,
}

impl Probe {
    /// Asks for what every QEMU can be asked.
    pub(super) fn begin(link: &mut Link, now_ms: u64) -> Probe {
        for (purpose, command) in [
            (Purpose::Name, Command::QueryName),
            (Purpose::Uuid, Command::QueryUuid),
            (Purpose::Memory, Command::QueryMemory),
            (Purpose::Beside, Command::QueryMemoryDevices),
            (Purpose::Actual, Command::QueryBalloon),
            (Purpose::Vcpus, Command::QueryCpusFast),
            (Purpose::Chardevs, Command::QueryChardev),
            (Purpose::Migration, Command::QueryMigrate),
            (Purpose::Status, Command::QueryStatus),
        ] {
            link.ask(purpose, command, now_ms);
        }
        for path in DEVICES {
            link.ask(Purpose::Devices(path), Command::QomList { path: path.into() }, now_ms);
        }
        Probe::default()
    }

    /// Takes an answer. A command that failed leaves unknown what it was asked for.
    pub(super) fn answer(
        &mut self,
        purpose: Purpose,
        outcome: Result<Reply, Failure>,
        link: &mut Link,
        now_ms: u64,
    ) {
        let Ok(reply) = outcome else { return };
        match (purpose, reply) {
            (Purpose::Name, Reply::Name(name)) => self.name = name,
            (Purpose::Uuid, Reply::Uuid(uuid)) => self.uuid = uuid,
            (Purpose::Memory, Reply::Memory { base_bytes, plugged_bytes }) => {
                self.memory = base_bytes.checked_add(plugged_bytes.unwrap_or(0));
            }
            (Purpose::Beside, Reply::MemoryDevices { virtio_mem_bytes }) => {
                self.beside = virtio_mem_bytes;
            }
            (Purpose::Actual, Reply::Balloon { actual_bytes }) => self.actual = Some(actual_bytes),
            (Purpose::Vcpus, Reply::Vcpus(threads)) => {
                self.vcpu_tids = threads.iter().map(|thread| thread.tid).collect();
            }
            (Purpose::Chardevs, Reply::Chardevs(list)) => self.chardevs = list,
            (Purpose::Migration, Reply::Migration(status)) => {
                self.is_moving = status.is_some_and(|status| state::is_moving(&status));
            }
            (Purpose::Status, Reply::Status(status)) => self.status = Some(status),
            (Purpose::Devices(path), Reply::Properties(list)) => {
                self.devices(path, &list, link, now_ms);
            }
            (Purpose::DeflateOnOom, Reply::Value(value)) => self.deflate_on_oom = value.as_bool(),
            (Purpose::PageReporting, Reply::Value(value)) => self.page_reporting = value.as_bool(),
            (Purpose::StatsKnown, Reply::Value(_)) => self.statistics = true,
            (Purpose::PortName(place), Reply::Value(value)) => {
                if let Some(port) = self.ports.get_mut(place) {
                    port.is_ours = value.as_str() == Some(PORT_NAME);
                }
            }
            (Purpose::PortChardev(place), Reply::Value(Value::String(label))) => {
                if let Some(port) = self.ports.get_mut(place) {
                    port.chardev = Some(label);
                }
            }
            _ => {}
        }
    }

    /// Asks the devices of interest for more.
    fn devices(&mut self, parent: &str, list: &[Property], link: &mut Link, now_ms: u64) {
        let mut get = |purpose, path: &str, property| {
            link.ask(purpose, Command::QomGet { path: path.to_owned(), property }, now_ms);
        };
        for device in list {
            let path = format!("{parent}/{}", device.name);
            if device.kind.starts_with("child<virtio-balloon") && self.balloon.is_none() {
                get(Purpose::DeflateOnOom, &path, "deflate-on-oom");
                get(Purpose::PageReporting, &path, "free-page-reporting");
                get(Purpose::StatsKnown, &path, "guest-stats");
                self.balloon = Some(path);
            } else if device.kind == "child<virtserialport>" && self.ports.len() < PORTS_MAX {
                get(Purpose::PortName(self.ports.len()), &path, "name");
                get(Purpose::PortChardev(self.ports.len()), &path, "chardev");
                self.ports.push(SerialPort::default());
            }
        }
    }

    /// The balloon has changed while we asked.
    pub(super) fn balloon_changed(&mut self, actual_bytes: u64) {
        self.actual = Some(actual_bytes);
    }

    /// Whether this process can be the one that runs the guest: it has at least one of the
    /// threads that QEMU names, if QEMU names any.
    pub(super) fn runs_in(&self, process: ProcessId, root: &Path) -> bool {
        self.vcpu_tids.is_empty() || !own_threads(&self.vcpu_tids, Some(process), root).is_empty()
    }

    /// All that was learnt; `None` if it is nothing that has memory.
    pub(super) fn finish(self, socket: &Path, listener: Listener, root: &Path) -> Option<Probed> {
        let Listener { owner, user, process } = listener;
        let memory = within(Bytes(self.memory.or(self.actual)?), process, root);
        let beside = Bytes(self.beside).min(memory);
        let run = self.status.as_ref().map_or(RunState::Paused, state::of_status);
        let port = self.ports.iter().find(|port| port.is_ours);
        let name = self.name.as_deref().filter(|name| !name.is_empty());
        let found = Found {
            name: name.map_or_else(|| stem(socket), |name| cut(name).to_owned()),
            uuid: self.uuid,
            owner,
            user,
            process,
            memory,
            actual: self.actual.map_or(memory, |size| Bytes(size).plus(beside)).min(memory),
            vcpu_tids: own_threads(&self.vcpu_tids, process, root),
            can: Capabilities {
                balloon: self.actual.is_some(),
                statistics: self.statistics,
                deflate_on_oom: self.deflate_on_oom,
                page_reporting: self.page_reporting,
                port: port.is_some(),
            },
            port: port.and_then(|port| listens_at(&self.chardevs, port.chardev.as_deref()?)),
            state: state::joined(run, self.is_moving),
            source: socket.display().to_string(),
        };
        let Probe { balloon, is_moving, .. } = self;
        Some(Probed { found, balloon, beside, run, is_moving })
    }
}

/// What a process says that its guest has, as far as the process has room for it: whoever has a
/// socket may say anything.
pub(super) fn within(memory: Bytes, process: Option<ProcessId>, root: &Path) -> Bytes {
    let view = process.and_then(|process| ProcessView::open_under(root, process));
    view.and_then(|view| view.mapped()).map_or(memory, |mapped| memory.min(mapped))
}

/// A guest without a name is called like its socket.
fn stem(socket: &Path) -> String {
    cut(&socket.file_stem().unwrap_or_default().to_string_lossy()).to_owned()
}

fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES_MAX)]
}

/// The threads of the process that QEMU names, by their numbers here. One that was broken out of
/// could name anybody's.
pub(super) fn own_threads(tids: &[u32], process: Option<ProcessId>, root: &Path) -> Vec<u32> {
    let Some(process) = process else { return Vec::new() };
    let here = process.threads_under(root, tids);
    let tasks = root.join(format!("proc/{}/task", process.pid));
    here.into_iter().filter(|tid| tasks.join(tid.to_string()).is_dir()).collect()
}

/// The socket on which a character device waits for a client, such as the PATH of
/// `disconnected:unix:PATH,server=on`.
fn listens_at(chardevs: &[Chardev], label: &str) -> Option<PathBuf> {
    let filename = &chardevs.iter().find(|device| device.label == label)?.filename;
    let filename = filename.strip_prefix("disconnected:").unwrap_or(filename);
    let address = filename.strip_prefix("unix:")?;
    let path = address.strip_suffix(",server=on").or(address.strip_suffix(",server"))?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_where_its_character_device_listens() {
        let at = |filename: &str| {
            let device = Chardev { label: "port".into(), filename: filename.into() };
            listens_at(&[device], "port").map(|path| path.display().to_string())
        };
        let path = Some("/run/a,b.port".to_owned());
        assert_eq!(at("disconnected:unix:/run/a,b.port,server=on"), path);
        assert_eq!(at("unix:/run/a,b.port,server=on"), path);
        assert_eq!(at("unix:/run/a,b.port,server"), path);
        assert_eq!(at("unix:/run/a.port"), None, "it is a client itself");
        assert_eq!(at("unix:,server=on"), None, "an inherited socket has no name");
        assert_eq!(at("disconnected:tcp:0.0.0.0:1,server=on"), None);
        assert_eq!(listens_at(&[], "port"), None);
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(cut(&"é".repeat(200)), "é".repeat(127));
        assert_eq!(stem(Path::new("/run/a/web1.qmp")), "web1");
    }
}
