//! How many reads of the zram device the guests have in a second: compressed memory that stands for
//! a disk, without the noise of a real one.
//!
//! The kernel counts a read against the cgroup of the process that waits for it. So guests wait for
//! their own pages, and nobody else does: not a manager that brings some back ahead.

use std::path::{Path, PathBuf};

use super::cgroup::{self, Version};
use super::fault::{TierContext, ZRAM, refused};
use super::machine::{Calls, Live, Machine, Places, write};
use super::record::Record;
use crate::Error;

/// Version 1 has it in a tree of its own, version 2 beside the memory.
const V1_TREE: &str = "blkio";
const V1_FILE: &str = "blkio.throttle.read_iops_device";
const V2_FILE: &str = "io.max";
/// Where the kernel says which it is.
const RELEASE: &str = "proc/sys/kernel/osrelease";

/// Whether this machine can be made to read zram slowly for a farm's guests: its kernel counts such
/// reads, and the cgroup that a farm would have limits them.
pub fn can_limit_reads() -> bool {
    can_limit_reads_at(&Places::usual(), Box::new(Live))
}

pub(super) fn can_limit_reads_at(places: &Places, calls: Box<dyn Calls>) -> bool {
    let machine = Machine::new(places, calls);
    machine.read(RELEASE).is_ok_and(|release| counts_reads(&release))
        && cgroup::hands_on_reads(&machine, V1_TREE)
}

/// Limits the reads of a device. `limited` is the cgroup that has the limit of memory. Gives the
/// list of processes to join beside that one's, where there is one.
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
            "this kernel ({}) does not count reads of zram, as kernels do from 6.3 on: take \
             `zram_reads` out of [limits]",
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
            (dir, V2_FILE, format!("{number} riops={reads}"), "hand `io` on to it")
        }
    };
    let dir = dir.filter(|dir| dir.join(file).exists()).ok_or_else(|| {
        let what = format!(
            "the farm's cgroup has no {file}, which limits reads: {hint}, or take `zram_reads` out \
             of [limits]"
        );
        refused(ZRAM, what)
    })?;
    let path = dir.join(file);
    write(&path, &line).tier(ZRAM, format!("cannot write {line:?} to {}", path.display()))?;
    Ok((version == Version::One).then(|| dir.join("cgroup.procs")))
}

/// Whether a kernel of this release reads zram as it reads disks. Before 6.3 it had another way to
/// a page there, which no cgroup saw.
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
