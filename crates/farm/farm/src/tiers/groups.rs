//! A separate cgroup for each guest, below the farm's cgroup.
//!
//! ```text
//!   pinhead-PID-N/              the farm's: with the limit of all guests, if there is one
//!     guest-web1/               memory.max, pids.max: what a healthy QEMU never reaches
//!     guest-web2/
//! ```
//!
//! A process that breaks out of a guest then gets no more of the host than the guest's limits
//! allow. Version 1 limits memory and processes in two trees, and version 2 in one.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::cgroup::{self, Version};
use super::fault::{CGROUP, TierContext};
use super::machine::{Machine, names, read, write};
use super::record::Record;
use super::step::GUEST_PREFIX;
use crate::Error;

/// Limits of one guest's QEMU on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestLimits<'a> {
    /// Name of the guest, already validated before the guest's start.
    pub name: &'a str,
    /// Maximum memory of the whole process.
    pub memory_bytes: u64,
    /// Maximum number of threads.
    pub threads: u64,
}

/// A farm's cgroup in one tree, and the limits that this tree has for the farm's guests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    dir: PathBuf,
    memory: Option<&'static str>,
    has_threads: bool,
}

/// Makes the farm's cgroups for the limits of single guests. `limited` is the existing cgroup with
/// the common limit, if any. If a controller is missing, its limit is left out.
pub(super) fn make(
    machine: &Machine,
    record: &mut Record,
    limited: Option<&Path>,
) -> Result<Vec<Group>, Error> {
    let id = record.id().to_owned();
    let mut groups = Vec::new();
    let memory = match limited {
        Some(dir) => Some(dir.to_path_buf()),
        None => cgroup::make_plain(machine, record, &id, "memory")?,
    };
    let version = cgroup::version(machine);
    if let Some(dir) = memory {
        let has_threads = version == Version::Two && hand_on(&dir)?;
        if version == Version::One {
            // Kernels before 5.11 apply a cgroup's limit to the cgroups below only with this
            // setting.
            let _ = write(&dir.join("memory.use_hierarchy"), "1");
        }
        groups.push(Group { dir, memory: Some(version.memory_file()), has_threads });
    }
    if version == Version::One
        && let Some(dir) = cgroup::make_plain(machine, record, &id, "pids")?
    {
        groups.push(Group { dir, memory: None, has_threads: true });
    }
    Ok(groups)
}

/// Delegates the controllers to the cgroups below this one. Returns true if threads can be limited
/// too.
fn hand_on(dir: &Path) -> Result<bool, Error> {
    let file = dir.join("cgroup.subtree_control");
    write(&file, "+memory").tier(CGROUP, format!("cannot write {}", file.display()))?;
    Ok(write(&file, "+pids").is_ok())
}

impl Group {
    /// Puts a guest's process into the guest's own cgroup.
    pub(super) fn join(&self, pid: u32, guest: &GuestLimits<'_>) -> Result<(), Error> {
        let dir = self.own(guest.name);
        match fs::create_dir(&dir) {
            // The cgroup is left from an earlier start of this guest.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made.tier(CGROUP, format!("cannot make {}", dir.display()))?,
        }
        let threads = self.has_threads.then_some(("pids.max", guest.threads));
        let memory = self.memory.map(|file| (file, guest.memory_bytes));
        let limits = memory.into_iter().chain(threads);
        for (file, value) in limits.chain([("cgroup.procs", u64::from(pid))]) {
            let path = dir.join(file);
            write(&path, &value.to_string())
                .tier(CGROUP, format!("cannot write {value} to {}", path.display()))?;
        }
        Ok(())
    }

    /// Removes the guest's own cgroup if its processes have ended. Otherwise the cgroup is removed
    /// with the farm's cgroup.
    pub(super) fn leave(&self, guest: &str) {
        let _ = fs::remove_dir(self.own(guest));
    }

    pub(super) fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    fn own(&self, guest: &str) -> PathBuf {
        self.dir.join(format!("{GUEST_PREFIX}{guest}"))
    }
}

/// Returns the cgroups of a farm's guests, followed by the farm's own cgroup.
pub(super) fn with_guests(dir: &Path) -> Vec<PathBuf> {
    let guests = names(dir, GUEST_PREFIX).into_iter().map(|name| dir.join(name));
    guests.filter(|path| path.is_dir()).chain([dir.to_path_buf()]).collect()
}

/// Returns the processes in a farm's cgroup and in the cgroups of its guests.
pub(super) fn processes(dir: &Path) -> Vec<String> {
    let texts = with_guests(dir).into_iter().map(|dir| read(&dir.join("cgroup.procs")));
    let texts = texts.map(Result::unwrap_or_default);
    texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiers::{Live, Places};
    use vm::Scratch;

    /// Creates the files of version 2, in which a directory above ours delegates controllers.
    fn machine(dir: &Scratch, controllers: &str) -> (Places, Machine) {
        let root = dir.join("root");
        let top = root.join("sys/fs/cgroup/user");
        fs::create_dir_all(top.join("me")).unwrap();
        fs::create_dir_all(root.join("proc/self")).unwrap();
        fs::write(root.join("proc/self/cgroup"), "0::/user/me\n").unwrap();
        fs::write(top.join("cgroup.subtree_control"), controllers).unwrap();
        let (records, swap_dir) = (dir.join("records"), dir.join("swap"));
        fs::create_dir_all(&records).unwrap();
        let places = Places { root, records, swap_dir };
        let machine = Machine::new(&places, Box::new(Live));
        (places, machine)
    }

    #[test]
    fn version_two_has_both_limits_in_one_place() {
        let dir = Scratch::new("groups").unwrap();
        let (places, machine) = machine(&dir, "cpu memory pids\n");
        let mut record = Record::create(&places).unwrap();
        let name = format!("sys/fs/cgroup/user/pinhead-{}", record.id());
        let own = machine.path(&name).join("guest-web1");
        // This cgroup is left from an earlier start, and has the kernel's files in it.
        fs::create_dir_all(&own).unwrap();
        for file in ["memory.max", "pids.max", "cgroup.procs"] {
            fs::write(own.join(file), "").unwrap();
        }
        let limited = machine.path(&name);
        for file in ["cgroup.subtree_control", "cgroup.procs"] {
            fs::write(limited.join(file), "").unwrap();
        }
        let groups = make(&machine, &mut record, Some(&limited)).unwrap();
        let guest = GuestLimits { name: "web1", memory_bytes: 1 << 20, threads: 130 };
        assert_eq!(groups.len(), 1);
        groups[0].join(4711, &guest).unwrap();
        let text = |file: &str| fs::read_to_string(own.join(file)).unwrap();
        assert_eq!((text("memory.max"), text("pids.max")), ("1048576".into(), "130".into()));
        assert_eq!(processes(&limited), ["4711"]);
        assert_eq!(with_guests(&limited), [own, limited]);
    }

    #[test]
    fn no_other_cgroup_is_changed_without_delegation() {
        let dir = Scratch::new("groups-none").unwrap();
        let (places, machine) = machine(&dir, "cpu\n");
        let mut record = Record::create(&places).unwrap();
        assert_eq!(make(&machine, &mut record, None).unwrap(), []);
        assert!(record.steps.is_empty());
    }
}
