//! Limit on the guests' reads of the zram device per second. Compressed memory then behaves like a
//! disk, but without a real disk's varying speed.
//!
//! The kernel charges a read to the cgroup of the process that waits for the page. Guests therefore
//! wait only for their own pages, and a manager that prefetches pages does not wait.

use std::path::{Path, PathBuf};

use super::cgroup::{self, Version};
use super::fault::{TierContext, ZRAM, refused};
use super::machine::{Calls, Live, Machine, Places, write};
use super::record::Record;
use crate::Error;

/// Tree and file of the read limit in version 1, and file of this limit in version 2. The file of
/// version 2 lies in the cgroup with the memory limit.
const V1_TREE: &str = "blkio";
const V1_FILE: &str = "blkio.throttle.read_iops_device";
const V2_FILE: &str = "io.max";
/// File with the kernel's release.
const RELEASE: &str = "proc/sys/kernel/osrelease";

/// Returns true if this machine can limit the zram reads of a farm's guests. The machine's kernel
/// must count such reads, and the farm's cgroup must be able to limit them.
pub fn can_limit_reads() -> bool {
    can_limit_reads_at(&Places::usual(), Box::new(Live))
}

pub(super) fn can_limit_reads_at(places: &Places, calls: Box<dyn Calls>) -> bool {
    let machine = Machine::new(places, calls);
    machine.read(RELEASE).is_ok_and(|release| counts_reads(&release))
        && cgroup::hands_on_reads(&machine, V1_TREE)
}

/// Limits the reads of a device. `limited` is the cgroup with the memory limit. Returns the process
/// list of a second cgroup that guests must join, if there is one.
pub(super) fn limit(
    machine: &Machine,
    record: &mut Record,
    limited: Option<&Path>,
    device: &Path,
    reads: u32,
) -> Result<Option<PathBuf>, Error> {
    let release = machine.read(RELEASE).unwrap_or_default();
    if !counts_reads(&release) {
        let what = format!(
            "this kernel ({}) does not count reads of zram (Linux 6.3 does): remove `zram_reads` \
             from [limits]",
            release.trim()
        );
        return Err(refused(ZRAM, what));
    }
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    let number = format!("sys/block/{name}/dev");
    let number = machine.read(&number).tier(ZRAM, format!("cannot read /{number}"))?;
    let number = number.trim();
    let id = record.id().to_owned();
    let version = cgroup::version(machine);
    let (dir, file, line, hint) = match version {
        Version::One => {
            let dir = cgroup::make_plain(machine, record, &id, V1_TREE)?;
            (dir, V1_FILE, format!("{number} {reads}"), "mount blkio")
        }
        Version::Two => {
            let dir = limited.map(Path::to_path_buf);
            (dir, V2_FILE, format!("{number} riops={reads}"), "delegate `io` to the cgroup")
        }
    };
    let dir = dir.filter(|dir| dir.join(file).exists()).ok_or_else(|| {
        let what = format!(
            "the farm's cgroup has no {file}, which limits reads: {hint}, or remove `zram_reads` \
             from [limits]"
        );
        refused(ZRAM, what)
    })?;
    let path = dir.join(file);
    write(&path, &line).tier(ZRAM, format!("cannot write {line:?} to {}", path.display()))?;
    Ok((version == Version::One).then(|| dir.join("cgroup.procs")))
}

/// Returns true if a kernel of this release reads zram like a disk. Before 6.3 the kernel read zram
/// pages by another path, invisible to cgroups.
fn counts_reads(release: &str) -> bool {
    let mut parts = release.trim().split(|c: char| !c.is_ascii_digit());
    let mut number = || parts.next()?.parse::<u32>().ok();
    number().zip(number()) >= Some((6, 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_count_reads_are_known_by_their_release() {
        for (release, counts) in
            [("6.3.0", true), ("6.18.44-x\n", true), ("7.0", true), ("6.1.0-9-amd64", false)]
        {
            assert_eq!(counts_reads(release), counts, "{release}");
        }
        assert!(!counts_reads("5.15.0") && !counts_reads("") && !counts_reads("six"));
    }
}
