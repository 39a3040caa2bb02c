//! Tiers of memory below RAM: swap devices, zram, zswap.

use model::{HostField, Row, TierField};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::steady;
use procfs::parse::swaps::{SwapArea, swap_areas};
use procfs::parse::{number, numbers};
use procfs::{Buffer, Kept};

/// Maximum number of swap areas in the kernel.
const SWAPS_MAX: usize = 32;
/// Maximum number of zram devices. A guest may have such a device as its swap disk.
const ZRAM_MAX: usize = 256;
/// Bytes in a sector of a block device's counters, independent of the device.
const SECTOR_BYTES: u64 = 512;
/// Bytes in the unit of the counters of zram's backing device.
const BACKING_BYTES: u64 = 4096;
/// Nanoseconds in a millisecond.
const MS_NS: u64 = 1_000_000;
/// Offset added to a priority, so that the recorded value is never negative.
const PRIORITY_BASE: i64 = 32_768;
/// Interval of scans for devices, which seldom change.
const LIST_MS: u64 = 10_000;

#[derive(Debug, Default)]
struct Device {
    stat: Kept,
    mm_stat: Kept,
    bd_stat: Kept,
    disk_size: Kept,
    last: Row<TierField>,
}

/// Reader of tiers of memory.
#[derive(Debug, Default)]
pub struct TierReader {
    root: PathBuf,
    swaps: Kept,
    zswap_enabled: Kept,
    zswap_percent: Kept,
    zswap_last: Row<TierField>,
    devices: BTreeMap<String, Device>,
    zrams: Vec<String>,
    listed_ms: Option<u64>,
    buffer: Buffer,
}

impl TierReader {
    /// Opens the files below a root.
    pub fn open(root: &Path) -> TierReader {
        let zswap = |name: &str| Kept::open(&root.join("sys/module/zswap/parameters").join(name));
        TierReader {
            root: root.to_owned(),
            swaps: Kept::open(&root.join("proc/swaps")),
            zswap_enabled: zswap("enabled"),
            zswap_percent: zswap("max_pool_percent"),
            ..TierReader::default()
        }
    }

    /// Returns all tiers by name. The values of zswap come from the host's row.
    pub fn read(&mut self, host: &Row<HostField>, now_ms: u64) -> BTreeMap<String, Row<TierField>> {
        let mut tiers = self.swaps();
        if self.listed_ms.is_none_or(|at| now_ms.saturating_sub(at) >= LIST_MS) {
            self.listed_ms = Some(now_ms);
            self.zrams = zrams(&self.root);
        }
        let (root, zrams) = (&self.root, &self.zrams);
        for zram in zrams {
            tiers.entry(format!("/dev/{zram}")).or_default();
        }
        self.devices.retain(|name, _| tiers.contains_key(name));
        for (name, row) in &mut tiers {
            let device = match self.devices.get_mut(name) {
                Some(device) => device,
                None => self.devices.entry(name.clone()).or_insert(Device::open(root, name)),
            };
            device.read(row, &mut self.buffer);
        }
        // A zram device without a size has never been set up.
        tiers.retain(|_, row| row.get(TierField::Size) != Some(0));
        if let Some(row) = self.zswap(host) {
            tiers.insert("zswap".to_owned(), row);
        }
        tiers
    }

    fn swaps(&mut self) -> BTreeMap<String, Row<TierField>> {
        let Some(text) = self.swaps.whole(&mut self.buffer) else { return BTreeMap::new() };
        swap_areas(text).take(SWAPS_MAX).map(swap).collect()
    }

    fn zswap(&mut self, host: &Row<HostField>) -> Option<Row<TierField>> {
        let enabled = self.zswap_enabled.once(&mut self.buffer)?.first() == Some(&b'Y');
        let stored = host.get(HostField::Zswapped);
        if !enabled && stored.unwrap_or(0) == 0 {
            return None;
        }
        let mut row = Row::default();
        let percent = self.zswap_percent.number(&mut self.buffer);
        let total = host.get(HostField::Total);
        let bytes = |field: HostField| host.get(field)?.checked_mul(4096);
        row.set(TierField::Size, total.zip(percent).map(|(t, p)| t / 100 * p.min(100)));
        row.set(TierField::Used, host.get(HostField::Zswap));
        row.set(TierField::Stored, stored);
        row.set(TierField::Compressed, host.get(HostField::Zswap));
        row.set(TierField::Resident, host.get(HostField::Zswap));
        row.set(TierField::Reads, host.get(HostField::ZswapIn));
        row.set(TierField::ReadBytes, bytes(HostField::ZswapIn));
        row.set(TierField::Writes, host.get(HostField::ZswapOut));
        row.set(TierField::WriteBytes, bytes(HostField::ZswapOut));
        steady::hold(&mut row, &mut self.zswap_last);
        Some(row)
    }
}

impl Device {
    /// Opens the counters of a device. A swap file has no counters.
    fn open(root: &Path, name: &str) -> Device {
        let Some(block) = name.strip_prefix("/dev/").filter(|name| !name.contains('/')) else {
            return Device::default();
        };
        let at = |file: &str| Kept::open(&root.join("sys/class/block").join(block).join(file));
        let zram = block.starts_with("zram");
        let of_zram = |file: &str| if zram { at(file) } else { Kept::default() };
        Device {
            stat: at("stat"),
            mm_stat: of_zram("mm_stat"),
            bd_stat: of_zram("bd_stat"),
            disk_size: of_zram("disksize"),
            ..Device::default()
        }
    }

    fn read(&mut self, row: &mut Row<TierField>, buffer: &mut Buffer) {
        if let Some([reads, _, read, read_ms, writes, _, written, write_ms]) =
            self.stat.once(buffer).and_then(numbers)
        {
            row.set(TierField::Reads, Some(reads));
            row.set(TierField::ReadBytes, read.checked_mul(SECTOR_BYTES));
            row.set(TierField::ReadTime, read_ms.checked_mul(MS_NS));
            row.set(TierField::Writes, Some(writes));
            row.set(TierField::WriteBytes, written.checked_mul(SECTOR_BYTES));
            row.set(TierField::WriteTime, write_ms.checked_mul(MS_NS));
        }
        if let Some([stored, compressed, resident]) = self.mm_stat.once(buffer).and_then(numbers) {
            row.set(TierField::Stored, Some(stored));
            row.set(TierField::Compressed, Some(compressed));
            row.set(TierField::Resident, Some(resident));
        }
        if let Some([count]) = self.bd_stat.once(buffer).and_then(numbers) {
            row.set(TierField::Backing, count.checked_mul(BACKING_BYTES));
        }
        if self.disk_size.is_open() && row.get(TierField::Size).is_none() {
            row.set(TierField::Size, self.disk_size.number(buffer));
        }
        steady::hold(row, &mut self.last);
    }
}

fn zrams(root: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root.join("sys/block")) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let is_zram = |name: &String| {
        name.strip_prefix("zram").is_some_and(|rest| number(rest.as_bytes()).is_some())
    };
    names.filter(is_zram).take(ZRAM_MAX).collect()
}

fn swap(area: SwapArea) -> (String, Row<TierField>) {
    let mut row = Row::default();
    row.set(TierField::Size, area.size_kib.checked_mul(1024));
    row.set(TierField::Used, area.used_kib.checked_mul(1024));
    row.set(TierField::Priority, u64::try_from(area.priority.saturating_add(PRIORITY_BASE)).ok());
    (area.name, row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    fn tree() -> Tree {
        let tree = Tree::new();
        tree.file(
            "proc/swaps",
            "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
             /dev/zram0                              partition\t1000\t\t10\t\t100\n\
             /dev/sda2                               partition\t8000\t\t0\t\t-2\n\
             /var/my\\040swap                         file\t\t500\t\t5\t\t-3\n",
        );
        let stat = "10 0 80 4 20 0 160 9 0 13 13\n";
        for name in ["zram0", "sda2", "zram1", "zram2"] {
            tree.file(&format!("sys/class/block/{name}/stat"), stat);
        }
        for (name, size) in [("zram0", 1_024_000), ("zram1", 4096), ("zram2", 0)] {
            tree.file(&format!("sys/block/{name}/disksize"), &size.to_string());
            let class = format!("sys/class/block/{name}");
            tree.file(&format!("{class}/disksize"), &format!("{size}\n"));
            tree.file(&format!("{class}/mm_stat"), "10240 2048 4096 0 4096 0 0 0 0\n");
        }
        tree.file("sys/class/block/zram0/bd_stat", "       3        0        3\n");
        tree
    }

    #[test]
    fn swaps_and_zram_devices_are_read() {
        let tree = tree();
        let tiers = TierReader::open(tree.path()).read(&Row::default(), 0);
        let names: Vec<&str> = tiers.keys().map(String::as_str).collect();
        assert_eq!(names, ["/dev/sda2", "/dev/zram0", "/dev/zram1", "/var/my swap"]);
        let get = |name: &str, field| tiers[name].get(field);
        assert_eq!(get("/dev/zram0", TierField::Size), Some(1_024_000));
        assert_eq!(get("/dev/zram0", TierField::Used), Some(10_240));
        assert_eq!(get("/dev/zram0", TierField::Priority), Some(32_868));
        assert_eq!(get("/dev/sda2", TierField::Priority), Some(32_766));
        assert_eq!(get("/dev/zram0", TierField::Stored), Some(10_240));
        assert_eq!(get("/dev/zram0", TierField::Resident), Some(4096));
        assert_eq!(get("/dev/zram0", TierField::Backing), Some(12_288));
        assert_eq!(get("/dev/zram1", TierField::Size), Some(4096));
        assert_eq!(get("/dev/zram1", TierField::Used), None, "zram1 is not a swap device");
        assert_eq!(get("/dev/sda2", TierField::ReadBytes), Some(80 * 512));
        assert_eq!(get("/dev/sda2", TierField::WriteTime), Some(9_000_000));
        assert_eq!(get("/dev/sda2", TierField::Stored), None);
        assert_eq!(get("/var/my swap", TierField::Reads), None);
    }

    #[test]
    fn zswap_is_a_tier_if_it_is_on_or_not_empty() {
        let tree = Tree::new();
        let mut host = Row::default();
        for (field, value) in [
            (HostField::Total, 1_000_000),
            (HostField::Zswap, 100),
            (HostField::Zswapped, 300),
            (HostField::ZswapOut, 7),
        ] {
            host.set(field, Some(value));
        }
        assert!(TierReader::open(tree.path()).read(&host, 0).is_empty(), "no such module");
        tree.file("sys/module/zswap/parameters/enabled", "N\n");
        tree.file("sys/module/zswap/parameters/max_pool_percent", "20\n");
        let tiers = TierReader::open(tree.path()).read(&host, 0);
        let zswap = &tiers["zswap"];
        assert_eq!(zswap.get(TierField::Size), Some(200_000));
        assert_eq!(zswap.get(TierField::Stored), Some(300));
        assert_eq!(zswap.get(TierField::WriteBytes), Some(7 * 4096));
        assert_eq!(zswap.get(TierField::Reads), None);
        host.set(HostField::Zswapped, Some(0));
        assert!(TierReader::open(tree.path()).read(&host, 0).is_empty());
    }

    #[test]
    fn devices_come_and_go() {
        let tree = tree();
        let mut reader = TierReader::open(tree.path());
        assert_eq!(reader.read(&Row::default(), 0).len(), 4);
        tree.file("proc/swaps", "Filename\nbroken\n/dev/x partition y z w\n");
        tree.remove("sys/block/zram1");
        assert_eq!(reader.read(&Row::default(), 1).len(), 2, "zram is listed seldom");
        let tiers = reader.read(&Row::default(), LIST_MS);
        assert_eq!(tiers.into_keys().collect::<Vec<_>>(), ["/dev/zram0"]);
    }
}
