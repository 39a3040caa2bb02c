//! Search for a domain's process.
//!
//! The protocol has no call for a domain's process. libvirt writes the PID to a file at once, and
//! the file is cheap to read. But only root may read the file, and the file may be stale. The PID
//! is therefore accepted only if the process was started with the domain's UUID.
//!
//! Without such a file, all processes are searched for that UUID. A search takes some milliseconds
//! for a thousand processes, so it is done rarely.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use virtrpc::Uuid;

use crate::ProcessId;
use crate::process::THREADS_MAX;

/// Maximum number of bytes read of a command line. libvirt passes the UUID among the first
/// arguments.
const COMMAND_BYTES_MAX: u64 = 64 << 10;

/// Maximum number of processes that are read.
const PROCESSES_MAX: usize = 1 << 16;

/// Time for which the last scan of all processes is valid.
const LOOK_MS: u64 = 2_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Is(ProcessId),
    /// The domain was not found in the last scan, which is older than the domain. The search must
    /// be repeated at this time.
    AskAgain(u64),
    /// No visible process of this user.
    Nobody,
}

#[derive(Debug)]
pub(super) struct Search {
    root: PathBuf,
    /// Directories of libvirt's pid files.
    dirs: Vec<PathBuf>,
    /// Processes by the UUID in their command line, and the time of the scan. Any user may start a
    /// process with a guest's UUID, so a UUID of several processes has no owner.
    last: Option<(u64, HashMap<Uuid, Option<u32>>)>,
}

impl Search {
    /// Creates a search for the daemon with this socket.
    pub(super) fn for_socket(socket: &Path) -> Search {
        let dir = socket.parent().unwrap_or(Path::new("/"));
        Search {
            root: "/".into(),
            // The directory of the system's daemon, and the directory of a user's daemon.
            dirs: vec![dir.join("qemu"), dir.join("qemu/run")],
            last: None,
        }
    }

    /// Finds the process of a domain that has been known since `since_ms`.
    pub(super) fn find(&mut self, name: &str, uuid: Uuid, since_ms: u64, now_ms: u64) -> Outcome {
        if let Some(process) = self.by_file(name, uuid) {
            return Outcome::Is(process);
        }
        if self.last.as_ref().is_none_or(|(at_ms, _)| now_ms.saturating_sub(*at_ms) >= LOOK_MS) {
            self.last = Some((now_ms, self.look()));
        }
        let Some((at_ms, all)) = &self.last else { return Outcome::Nobody };
        match all.get(&uuid).and_then(|pid| self.checked((*pid)?, uuid)) {
            Some(process) => Outcome::Is(process),
            None if *at_ms < since_ms => Outcome::AskAgain(at_ms + LOOK_MS),
            None => Outcome::Nobody,
        }
    }

    fn by_file(&self, name: &str, uuid: Uuid) -> Option<ProcessId> {
        // The name is untrusted and must not lead to another directory.
        if name.contains(['/', '\0']) {
            return None;
        }
        let numbers = self.dirs.iter().filter_map(|dir| {
            let text = read_start(&dir.join(format!("{name}.pid")), 32)?;
            std::str::from_utf8(&text).ok()?.trim().parse().ok()
        });
        numbers.into_iter().find_map(|pid| self.checked(pid, uuid))
    }

    /// Returns the process with this number if it was started for this UUID.
    fn checked(&self, pid: u32, uuid: Uuid) -> Option<ProcessId> {
        let process = ProcessId::of_under(&self.root, pid)?;
        (self.uuid_of(pid) == Some(uuid)).then_some(process)
    }

    fn look(&self) -> HashMap<Uuid, Option<u32>> {
        let mut all = HashMap::new();
        for pid in numbers_in(&self.root.join("proc"), PROCESSES_MAX) {
            if let Some(uuid) = self.uuid_of(pid) {
                all.entry(uuid).and_modify(|known| *known = None).or_insert(Some(pid));
            }
        }
        all
    }

    fn uuid_of(&self, pid: u32) -> Option<Uuid> {
        let text = read_start(&self.root.join(format!("proc/{pid}/cmdline")), COMMAND_BYTES_MAX)?;
        let mut words = text.split(|byte| *byte == 0);
        words.find(|word| *word == b"-uuid")?;
        parse_uuid(words.next()?)
    }

    /// Returns the vCPU threads of a process, in the order of the vCPUs. The number is in the
    /// thread's name, because libvirt makes QEMU name its threads.
    pub(super) fn vcpu_tids(&self, process: ProcessId) -> Vec<u32> {
        let dir = self.root.join(format!("proc/{}/task", process.pid));
        let mut found: Vec<(u32, u32)> = numbers_in(&dir, THREADS_MAX)
            .filter_map(|tid| {
                let name = read_start(&dir.join(format!("{tid}/comm")), 32)?;
                let name = std::str::from_utf8(&name).ok()?.trim();
                let (number, _accelerator) = name.strip_prefix("CPU ")?.split_once('/')?;
                Some((number.parse().ok()?, tid))
            })
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, tid)| tid).collect()
    }
}

fn numbers_in(dir: &Path, max: usize) -> impl Iterator<Item = u32> + use<> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().take(max);
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn read_start(path: &Path, max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn parse_uuid(text: &[u8]) -> Option<Uuid> {
    let mut digits = text.iter().filter(|byte| **byte != b'-').map(|byte| {
        let digit = char::from(*byte).to_digit(16)?;
        u8::try_from(digit).ok()
    });
    let mut uuid = Uuid::default();
    for byte in &mut uuid {
        *byte = digits.next()?? << 4 | digits.next()??;
    }
    digits.next().is_none().then_some(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::Tree;

    const UUID: &str = "00112233-4455-6677-8899-aabbccddeeff";

    fn process(tree: &Tree, pid: u32, uuid: &str) -> ProcessId {
        for (tid, comm) in [(pid, "qemu"), (pid + 2, "CPU 0/KVM"), (pid + 1, "CPU 1/KVM")] {
            tree.file(&format!("proc/{pid}/task/{tid}/comm"), &format!("{comm}\n"));
        }
        let words = format!("qemu\0-name\0guest=a\0-uuid\0{uuid}\0-display\0none\0");
        tree.file(&format!("proc/{pid}/cmdline"), &words);
        tree.process(pid, "qemu", 'S', 777);
        ProcessId { pid, start_ticks: 777 }
    }

    fn search(tree: &Tree) -> Search {
        Search { root: tree.path().into(), dirs: vec![tree.path().join("run")], last: None }
    }

    fn uuid() -> Uuid {
        parse_uuid(UUID.as_bytes()).unwrap()
    }

    #[test]
    fn the_file_is_believed_only_if_the_process_agrees() {
        let tree = Tree::create();
        process(&tree, 10, "ffffffff-4455-6677-8899-aabbccddeeff");
        let is = Outcome::Is(process(&tree, 20, UUID));
        tree.file("run/web1.pid", "10\n");
        assert_eq!(search(&tree).find("web1", uuid(), 0, 0), is, "the file is wrong");
        tree.file("run/web1.pid", "20\n");
        let mut search = search(&tree);
        assert_eq!(search.find("web1", uuid(), 0, 0), is);
        assert!(search.last.is_none(), "one read is enough");
        assert_eq!(search.by_file("../run/web1", uuid()), None);
    }

    #[test]
    fn without_a_file_all_are_looked_at_but_not_often() {
        let tree = Tree::create();
        let mut search = search(&tree);
        assert_eq!(search.find("web1", uuid(), 100, 100), Outcome::Nobody);
        let is = Outcome::Is(process(&tree, 20, UUID));
        assert_eq!(search.find("web1", uuid(), 150, 160), Outcome::AskAgain(2100));
        assert_eq!(search.find("web1", uuid(), 150, 2100), is);
    }

    #[test]
    fn a_uuid_that_two_processes_claim_is_nobodys() {
        let tree = Tree::create();
        for pid in [20, 30, 40] {
            process(&tree, pid, UUID);
        }
        let mut search = search(&tree);
        assert_eq!(search.find("web1", uuid(), 0, 0), Outcome::Nobody);
        tree.file("run/web1.pid", "30\n");
        let is = Outcome::Is(ProcessId { pid: 30, start_ticks: 777 });
        assert_eq!(search.find("web1", uuid(), 0, 0), is, "libvirt's own file says which");
    }

    #[test]
    fn threads_of_cpus_come_in_the_cpus_order() {
        let tree = Tree::create();
        let process = process(&tree, 20, UUID);
        assert_eq!(search(&tree).vcpu_tids(process), [22, 21]);
    }

    #[test]
    fn a_uuid_is_32_digits() {
        assert_eq!(uuid()[..3], [0, 0x11, 0x22]);
        for text in ["", "0011", &UUID[1..], &format!("{UUID}0"), &UUID.replace('f', "g")] {
            assert_eq!(parse_uuid(text.as_bytes()), None, "{text}");
        }
    }
}
