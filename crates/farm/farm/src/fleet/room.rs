//! Check that there is memory for woken guests, on the host and in the cgroups that contain the
//! farm.

use std::fs;
use std::path::PathBuf;

use base::Bytes;
use procfs::parse::value_of;
use procfs::{Buffer, MemoryGroup, Root, ZfsCache};

/// Limits of available memory below which a host is short of memory: a divisor of its total memory,
/// and a fixed minimum. On a host with 24 GiB the share is enough for a hundred web servers that
/// wake. A hundred guests may wake before the first woken guest can be parked again.
const PART: u64 = 16;
const LEAST: Bytes = Bytes::mib(256);
/// Divisor for the share of a small cgroup's limit that replaces the fixed minimum.
const GROUP_PART: u64 = 4;
/// Time for which a reading is valid. A guest uses some MiB when it wakes, and many guests may wake
/// within this time.
const SEEN_MS: u64 = 100;

/// Result of the last reading of the host's memory and cgroups.
#[derive(Debug, Default)]
pub(super) struct Room {
    root: Root,
    /// The farm's own cgroup, which contains its guests but not the farm's process.
    own: Option<PathBuf>,
    seen_ms: Option<u64>,
    is_short: bool,
}

impl Room {
    /// Creates the state for guests in this cgroup, or for guests without a cgroup.
    pub(super) fn of(own: Option<PathBuf>) -> Room {
        Room { own, ..Room::default() }
    }

    /// Returns true if the host, a limited cgroup around the farm, or the guests' own cgroup is
    /// short of memory. Unreadable values count as enough memory.
    pub(super) fn is_short(&mut self, now_ms: u64) -> bool {
        if self.seen_ms.is_none_or(|seen_ms| now_ms.saturating_sub(seen_ms) >= SEEN_MS) {
            self.seen_ms = Some(now_ms);
            let (root, mut buffer) = (self.root.path(), Buffer::default());
            let zfs = ZfsCache::read(root, &mut buffer).unwrap_or_default();
            let meminfo = fs::read(self.root.join("proc/meminfo")).unwrap_or_default();
            let swap = Bytes(value_of(&meminfo, "SwapFree").unwrap_or(0) << 10);
            let is_own_short = |dir: &PathBuf| is_group_short(&MemoryGroup::at(dir.clone()), swap);
            let above = MemoryGroup::all(root, "self", &mut buffer);
            self.is_short = is_short(&meminfo, zfs.gives)
                || above.iter().any(|group| is_group_short(group, Bytes::ZERO))
                || self.own.as_ref().is_some_and(is_own_short);
        }
        self.is_short
    }
}

/// Returns true if a cgroup is short of memory. A cgroup that is missing or has no limit is never
/// short. A farm's own cgroup with swap is always full, so the free swap that the cgroup may use
/// counts as free memory.
fn is_group_short(group: &MemoryGroup, swap: Bytes) -> bool {
    let left = group.limit().and_then(|limit| Some((limit, group.left(limit, swap)?)));
    left.is_some_and(|(limit, left)| is_little(limit, left, LEAST.min(Bytes(limit.0 / GROUP_PART))))
}

fn is_little(all: Bytes, left: Bytes, least: Bytes) -> bool {
    left < Bytes(all.0 / PART).max(least)
}

/// Returns true if the host is short of memory. Reserved huge pages are not usable, and so not part
/// of the total.
fn is_short(meminfo: &[u8], gives: Bytes) -> bool {
    let bytes = |name| Some(Bytes(value_of(meminfo, name)? << 10));
    let (Some(all), Some(available)) = (bytes("MemTotal"), bytes("MemAvailable")) else {
        return false;
    };
    let all = all.less(bytes("Hugetlb").unwrap_or(Bytes::ZERO));
    is_little(all, available.plus(gives), LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::FakeKernel;

    #[test]
    fn host_with_little_memory_left_is_short() {
        let of = |all_mib: u64, available_mib: u64| {
            let text = format!(
                "MemTotal: {} kB\nMemFree: 1 kB\nMemAvailable: {} kB\n",
                all_mib << 10,
                available_mib << 10
            );
            is_short(text.as_bytes(), Bytes::ZERO)
        };
        assert!(of(24_000, 1_499) && !of(24_000, 1_500));
        assert!(of(2_000, 255) && !of(2_000, 256));
        assert!(!is_short(b"MemTotal: 1 kB\n", Bytes::ZERO), "unknown memory counts as enough");
    }

    #[test]
    fn report_h08_huge_pages_and_zfs_cache_make_no_host_short() {
        let text = "MemTotal: 67108864 kB\nMemAvailable: 1048576 kB\nHugetlb: 53248000 kB\n";
        assert!(!is_short(text.as_bytes(), Bytes::ZERO));
        let text = text.replace("Hugetlb", "Other");
        assert!(is_short(text.as_bytes(), Bytes::ZERO));
        assert!(!is_short(text.as_bytes(), Bytes::mib(4096)));
    }

    #[test]
    fn room_is_read_again_after_a_while() {
        let kernel = FakeKernel::new(1, 1);
        kernel.write("proc/meminfo", "MemTotal: 4194304 kB\nMemAvailable: 2097152 kB\n");
        let mut room =
            Room { root: kernel.root(), seen_ms: Some(1_000), is_short: true, ..Room::default() };
        assert!(room.is_short(1_099));
        assert!(!room.is_short(1_100), "this machine is not short");
    }

    #[test]
    fn room_is_short_when_the_farms_group_is_and_the_host_is_not() {
        let kernel = FakeKernel::new(1, 1);
        kernel.write("proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n");
        kernel.write("proc/self/cgroup", "0::/farms/one\n");
        kernel.write("sys/fs/cgroup/farms/one/cgroup.procs", "");
        let group = |file: &str, text: String| {
            kernel.write(&format!("sys/fs/cgroup/farms/{file}"), &text);
        };
        let is_short = |max: &str, used_mib: u64| {
            group("memory.max", format!("{max}\n"));
            group("memory.current", format!("{}\n", used_mib << 20));
            Room { root: kernel.root(), ..Room::default() }.is_short(0)
        };
        let max = (4_096_u64 << 20).to_string();
        assert!(!is_short(&max, 3_840) && is_short(&max, 3_841));
        group("memory.stat", format!("inactive_file {}\n", 64 << 20));
        assert!(!is_short(&max, 3_900), "pages of files can be dropped");
        assert!(!is_short("max", 60_000), "no limit");
        let small = (256_u64 << 20).to_string();
        assert!(!is_short(&small, 256) && is_short(&small, 257), "a quarter, and 64 of files");
    }

    #[test]
    fn room_is_short_when_the_guests_own_group_is_and_swap_is_full() {
        let kernel = FakeKernel::new(1, 1);
        let group = "sys/fs/cgroup/pinhead-1-0";
        let is_short = |used_mib: u64, swap_mib: u64| {
            kernel.write(
                "proc/meminfo",
                &format!(
                    "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\nSwapFree: {} kB\n",
                    swap_mib << 10
                ),
            );
            kernel.write(&format!("{group}/memory.max"), "4294967296\n");
            kernel.write(&format!("{group}/memory.current"), &format!("{}\n", used_mib << 20));
            let own = Some(kernel.path(group));
            Room { root: kernel.root(), own, ..Room::default() }.is_short(0)
        };
        assert!(!is_short(3_840, 0) && is_short(3_841, 0));
        assert!(!is_short(4_096, 1_024), "full by design, and swap has room");
        assert!(is_short(4_096, 255), "swap is full, too");
        kernel.write(&format!("{group}/memory.swap.max"), "0\n");
        kernel.write(&format!("{group}/memory.swap.current"), "0\n");
        assert!(is_short(4_096, 1_024), "its swap limit is 0");
    }
}
