//! What a QEMU answers when it is asked what it is.

use std::path::Path;

use counters::Bytes;
use qmp::{Command, Failure, Reply};

use super::devices::{DeviceLook, Devices};
use super::link::{Link, Purpose};
use super::state;
use crate::process::ThreadNumbers;
use crate::{Found, Owner, Pause, ProcessId, ProcessView, RunState};

/// The longest name that is kept; what is behind is cut off.
const NAME_BYTES_MAX: usize = 255;
/// The answers so far.
#[derive(Debug, Default)]
pub(super) struct Probe {
    name: Option<String>,
    uuid: [u8; 16],
    memory: Option<u64>,
    ram: Vec<Bytes>,
    actual: Option<u64>,
    /// Memory that the balloon does not count. A QEMU that cannot be asked has none.
    beside: u64,
    status: Option<qmp::RunState>,
    is_moving: bool,
    vcpu_tids: Vec<u32>,
    devices: DeviceLook,
    numbers: ThreadNumbers,
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
    /// The numbers of its threads, as far as they were looked for.
    pub(super) numbers: ThreadNumbers,
}

impl Probe {
    /// Asks for what every QEMU can be asked.
    pub(super) fn begin(link: &mut Link, now_ms: u64) -> Probe {
        for (purpose, command) in [
            (Purpose::Name, Command::QueryName),
            (Purpose::Uuid, Command::QueryUuid),
            (Purpose::Memory, Command::QueryMemory),
            (Purpose::Memdevs, Command::QueryMemdev),
            (Purpose::Beside, Command::QueryMemoryDevices),
            (Purpose::Actual, Command::QueryBalloon),
            (Purpose::Vcpus, Command::QueryCpusFast),
            (Purpose::Migration, Command::QueryMigrate),
            (Purpose::Status, Command::QueryStatus),
        ] {
            link.ask(purpose, command, now_ms);
        }
        Probe { devices: DeviceLook::begin(link, now_ms), ..Probe::default() }
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
            (Purpose::Memdevs, Reply::Memdevs(sizes)) => {
                self.ram = sizes.into_iter().map(Bytes).collect();
            }
            (Purpose::Beside, Reply::MemoryDevices { virtio_mem_bytes }) => {
                self.beside = virtio_mem_bytes;
            }
            (Purpose::Actual, Reply::Balloon { actual_bytes }) => self.actual = Some(actual_bytes),
            (Purpose::Vcpus, Reply::Vcpus(threads)) => {
                self.vcpu_tids = threads.iter().map(|thread| thread.tid).collect();
            }
            (Purpose::Migration, Reply::Migration(status)) => {
                self.is_moving = status.is_some_and(|status| state::is_moving(&status));
            }
            (Purpose::Status, Reply::Status(status)) => self.status = Some(status),
            (purpose, reply) => self.devices.answer(purpose, reply, link, now_ms),
        }
    }

    /// The balloon has changed while we asked.
    pub(super) fn balloon_changed(&mut self, actual_bytes: u64) {
        self.actual = Some(actual_bytes);
    }

    /// Whether this process can be the one that runs the guest: it has at least one of the
    /// threads that QEMU names, if QEMU names any.
    pub(super) fn runs_in(&mut self, process: ProcessId, root: &Path) -> bool {
        let tids = &self.vcpu_tids;
        tids.is_empty() || !own_threads(tids, Some(process), &mut self.numbers, root).is_empty()
    }

    /// Returns whether this process has room for the memory that its guest is said to have.
    pub(super) fn fits(&self, process: ProcessId, root: &Path) -> bool {
        let said = self.memory.or(self.actual).map(Bytes);
        said.is_none_or(|said| within(said, Some(process), root) == said)
    }

    /// All that was learnt; `None` if it is nothing that has memory.
    pub(super) fn finish(
        mut self,
        socket: &Path,
        listener: Listener,
        root: &Path,
    ) -> Option<Probed> {
        let Listener { owner, user, process } = listener;
        let memory = within(Bytes(self.memory.or(self.actual)?), process, root);
        if memory == Bytes::ZERO {
            return None;
        }
        let beside = Bytes(self.beside).min(memory);
        let run = self.status.as_ref().map_or(RunState::Paused(Pause::ByHand), state::of_status);
        let Devices { balloon, can, port } = self.devices.finish(self.actual.is_some());
        let name = self.name.as_deref().filter(|name| !name.is_empty());
        let found = Found {
            name: name.map_or_else(|| stem(socket), |name| cut(name).to_owned()),
            uuid: self.uuid,
            owner,
            user,
            process,
            memory,
            ram: self.ram,
            actual: self.actual.map_or(memory, |size| Bytes(size).plus(beside)).min(memory),
            vcpu_tids: own_threads(&self.vcpu_tids, process, &mut self.numbers, root),
            can,
            port,
            state: state::joined(run, self.is_moving),
            // One that receives a saved state looks as one that moves here.
            is_restored: false,
            source: socket.display().to_string(),
        };
        let Probe { is_moving, numbers, .. } = self;
        Some(Probed { found, balloon, beside, run, is_moving, numbers })
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
pub(super) fn own_threads(
    tids: &[u32],
    process: Option<ProcessId>,
    numbers: &mut ThreadNumbers,
    root: &Path,
) -> Vec<u32> {
    let Some(process) = process else { return Vec::new() };
    let here = numbers.here(process, root, tids);
    let tasks = root.join(format!("proc/{}/task", process.pid));
    here.into_iter().filter(|tid| tasks.join(tid.to_string()).is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(cut(&"é".repeat(200)), "é".repeat(127));
        assert_eq!(stem(Path::new("/run/a/web1.qmp")), "web1");
    }
}
