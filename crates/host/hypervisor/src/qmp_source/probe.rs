//! Identification of a QEMU: the requests, and their responses.

use std::path::Path;

use base::Bytes;
use qmp::{Command, Failure, Reply};

use super::devices::{DeviceLook, Devices};
use super::link::{Link, Purpose};
use super::state;
use crate::process::ThreadNumbers;
use crate::{Found, Owner, Pause, ProcessId, ProcessView, RunState};

/// Longest name that is stored. Longer names are truncated.
const NAME_BYTES_MAX: usize = 255;
#[derive(Debug, Default)]
pub(super) struct Probe {
    name: Option<String>,
    uuid: [u8; 16],
    memory: Option<u64>,
    ram: Vec<Bytes>,
    actual: Option<u64>,
    /// Memory that the balloon does not count. The value is 0 for a QEMU that lacks the command to
    /// query it.
    beside: u64,
    status: Option<qmp::RunState>,
    is_moving: bool,
    vcpu_tids: Vec<u32>,
    devices: DeviceLook,
    numbers: ThreadNumbers,
}

/// Process that listens on a monitor's socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listener {
    pub(super) owner: Owner,
    /// User that the process runs as.
    pub(super) user: Option<Owner>,
    pub(super) process: Option<ProcessId>,
}

/// Result of a complete probe.
#[derive(Debug)]
pub(super) struct Probed {
    pub(super) found: Found,
    /// Path of the balloon in QEMU's object tree.
    pub(super) balloon: Option<String>,
    /// Memory that the balloon does not count.
    pub(super) beside: Bytes,
    /// Run state, apart from migration.
    pub(super) run: RunState,
    pub(super) is_moving: bool,
    /// Known thread numbers of the process.
    pub(super) numbers: ThreadNumbers,
}

impl Probe {
    /// Sends the requests that every QEMU accepts.
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

    /// Handles a response. The value of a failed command stays unknown.
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

    pub(super) fn balloon_changed(&mut self, actual_bytes: u64) {
        self.actual = Some(actual_bytes);
    }

    /// Returns true if this process can be the guest's QEMU. The process must have at least one of
    /// the vCPU threads named by QEMU, if QEMU names any.
    pub(super) fn runs_in(&mut self, process: ProcessId, root: &Path) -> bool {
        let tids = &self.vcpu_tids;
        tids.is_empty() || !own_threads(tids, Some(process), &mut self.numbers, root).is_empty()
    }

    /// Returns true if the process's mappings are as large as the reported memory of its guest.
    pub(super) fn fits(&self, process: ProcessId, root: &Path) -> bool {
        let said = self.memory.or(self.actual).map(Bytes);
        said.is_none_or(|said| within(said, Some(process), root) == said)
    }

    /// Returns the result; `None` if the QEMU has no memory.
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
            // A QEMU that loads a saved state has the same run state as a QEMU that receives a
            // migration.
            is_restored: false,
            source: socket.display().to_string(),
        };
        let Probe { is_moving, numbers, .. } = self;
        Some(Probed { found, balloon, beside, run, is_moving, numbers })
    }
}

/// Caps the reported memory of a guest at the mapped memory of its process, because the report is
/// not trustworthy.
pub(super) fn within(memory: Bytes, process: Option<ProcessId>, root: &Path) -> Bytes {
    let view = process.and_then(|process| ProcessView::open_under(root, process));
    view.and_then(|view| view.mapped()).map_or(memory, |mapped| memory.min(mapped))
}

/// Returns the name of the socket, for a guest without a name of its own.
fn stem(socket: &Path) -> String {
    cut(&socket.file_stem().unwrap_or_default().to_string_lossy()).to_owned()
}

fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES_MAX)]
}

/// Returns the threads of the process that QEMU names, with their numbers in this namespace. A
/// compromised QEMU could name the threads of any process.
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
