//! Memory of the host, and signs of a shortage.

use crate::config::Settings;
use base::Bytes;
use model::counters::{Counter, PsiField, PsiLine, PsiResource};
use policy::arbiter::HostSample;
use procfs::parse::numbers;
use procfs::parse::swaps::swap_areas;
use procfs::{Buffer, Kept, Reader, Root, ZfsCache};
use std::path::Path;

/// A reading of the host, made once a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Machine {
    /// MemTotal.
    pub all: Bytes,
    /// Memory for general use: MemTotal without reserved huge pages.
    pub total: Bytes,
    /// MemAvailable, plus the shrinkable part of ZFS's cache.
    pub available: Bytes,
    /// Reserved huge pages, used or not.
    pub huge_pages: Bytes,
    pub zfs: Option<ZfsCache>,
    /// Pages read from swap since boot.
    pub swap_in: u64,
    /// Pages written to swap since boot.
    pub swap_out: u64,
    /// Time in which some task waited for memory, in microseconds, if the kernel counts it.
    pub psi_some_us: Option<u64>,
    /// Private memory of this process.
    pub own: Bytes,
    /// Memory in the host's swap, in all tiers.
    pub swapped: Bytes,
    /// Memory of compressed swap: zram and zswap.
    pub compressed: Bytes,
}

/// Reads the host's counters, with files that stay open.
#[derive(Debug)]
pub struct MachineReader {
    reader: Reader,
    pressure: Option<Reader>,
    row: [f64; 4],
    swap: Option<Reader>,
    huge_pages: Option<Reader>,
    zswap: Option<Reader>,
    /// Counters of compressed swap devices.
    zram: Vec<Kept>,
    /// Size of swap at the last search for devices. A new device increases it.
    swap_kib: u64,
    root: Root,
    own: Kept,
    buffer: Buffer,
}

impl MachineReader {
    /// Opens the files below `root`.
    pub fn open(root: &Root) -> Result<MachineReader, procfs::Error> {
        let meminfo = |name: &str| Counter::Meminfo(name.into());
        let vmstat = |name: &str| Counter::Vmstat(name.into());
        let wanted =
            [meminfo("MemTotal"), meminfo("MemAvailable"), vmstat("pswpin"), vmstat("pswpout")];
        let psi = Counter::Psi(PsiResource::Memory, PsiLine::Some, PsiField::Total);
        Ok(MachineReader {
            reader: Reader::open(root, &wanted)?,
            // The kernel may support PSI but have it disabled.
            pressure: Reader::open(root, &[psi]).ok(),
            row: [f64::NAN; 4],
            swap: Reader::open(root, &[meminfo("SwapTotal"), meminfo("SwapFree")]).ok(),
            huge_pages: Reader::open(root, &[meminfo("Hugetlb")]).ok(),
            zswap: Reader::open(root, &[meminfo("Zswap")]).ok(),
            zram: Vec::new(),
            swap_kib: 0,
            root: root.clone(),
            own: Kept::open(&root.join("proc/self/statm")),
            buffer: Buffer::default(),
        })
    }

    fn compressed(&mut self) -> Bytes {
        let [zswap] = numbers_of(&mut self.zswap).unwrap_or_default();
        // The fields of mm_stat are the stored size, the compressed size, and the memory used.
        let takes = |file: &Kept| {
            let [_, _, takes] = file.once(&mut self.buffer).and_then(numbers)?;
            Some(takes)
        };
        let zram: u64 = self.zram.iter().filter_map(takes).fold(0, u64::saturating_add);
        Bytes(zswap.saturating_mul(1024).saturating_add(zram))
    }

    /// Returns a reading of the host.
    pub fn read(&mut self) -> Result<Machine, procfs::Error> {
        self.reader.read(0.0, &mut self.row)?;
        let [total, available, swap_in, swap_out] = self.row.map(|value| value as u64);
        let [swap, swap_free] = numbers_of(&mut self.swap).unwrap_or_default();
        if std::mem::replace(&mut self.swap_kib, swap) != swap {
            self.zram = zram_swaps(&self.root.join(""), &mut self.buffer);
        }
        let own = self.own.once(&mut self.buffer).and_then(numbers);
        let [_, resident, shared] = own.unwrap_or_default();
        let own_pages: u64 = resident.saturating_sub(shared);
        let psi = numbers_of(&mut self.pressure);
        let [huge_pages] = numbers_of(&mut self.huge_pages).unwrap_or_default();
        let (all, huge_pages) =
            (Bytes(total.saturating_mul(1024)), Bytes(huge_pages.saturating_mul(1024)));
        let zfs = ZfsCache::read(self.root.path(), &mut self.buffer);
        let gives = zfs.map_or(Bytes::ZERO, |zfs| zfs.gives);
        let total = all.less(huge_pages);
        Ok(Machine {
            all,
            total,
            available: Bytes(available.saturating_mul(1024)).plus(gives).min(total),
            huge_pages,
            zfs,
            swap_in,
            swap_out,
            psi_some_us: psi.map(|[us]| us),
            swapped: Bytes(swap.saturating_sub(swap_free).saturating_mul(1024)),
            compressed: self.compressed(),
            own: Bytes(own_pages.saturating_mul(rustix::param::page_size() as u64)),
        })
    }
}

/// Reads values that some kernels lack.
fn numbers_of<const N: usize>(reader: &mut Option<Reader>) -> Option<[u64; N]> {
    let mut row = [f64::NAN; N];
    reader.as_mut()?.read(0.0, &mut row).ok()?;
    Some(row.map(|value| value as u64))
}

/// Returns the counters of the zram devices used as swap. Other zram devices contain file systems.
pub(crate) fn zram_swaps(root: &Path, buffer: &mut Buffer) -> Vec<Kept> {
    let swaps = Kept::open(&root.join("proc/swaps"));
    let Some(text) = swaps.whole(buffer) else { return Vec::new() };
    let device = |name: &str| -> Option<Kept> {
        let zram = name.strip_prefix("/dev/").filter(|name| name.starts_with("zram"))?;
        Some(Kept::open(&root.join("sys/block").join(zram).join("mm_stat")))
    };
    swap_areas(text).take(SWAPS_MAX).filter_map(|area| device(&area.name)).collect()
}

impl Machine {
    /// Returns the compressed size of `swapped` bytes, by the average of all swapped memory.
    pub fn compressed_of(&self, swapped: Bytes) -> Option<Bytes> {
        let taken = u128::from(swapped.0) * u128::from(self.compressed.0);
        match u128::from(self.swapped.0) {
            0 => (swapped == Bytes::ZERO).then_some(Bytes::ZERO),
            all => u64::try_from(taken / all).ok().map(|taken| Bytes(taken).min(swapped)),
        }
    }

    /// Returns the reading of a host that runs this machine as its guest. The host reports no
    /// counters of swap. This machine's own counters say nothing about the host's guests.
    pub(crate) fn in_guest_of(&self, total: Bytes, available: Bytes) -> Machine {
        Machine { all: total, total, available, own: self.own, ..Machine::default() }
    }

    /// Returns the same reading, limited by a control group's limit and free memory.
    pub(crate) fn within(self, group: Option<(Bytes, Bytes)>) -> Machine {
        let Some((limit, free)) = group else { return self };
        let (total, available) = (self.total.min(limit), self.available.min(free));
        Machine { total, available, huge_pages: Bytes::ZERO, zfs: None, ..self }
    }

    /// Returns the arbiter's input. A budget limits the memory of all guests together, and `used`
    /// is the part of the budget in use.
    pub fn sample(
        &self,
        budget: Option<Bytes>,
        used: Bytes,
        strained: bool,
        at_ms: u64,
    ) -> HostSample {
        let (total, available) = match budget {
            Some(budget) => (budget.min(self.total), self.available.min(budget.less(used))),
            None => (self.total, self.available),
        };
        HostSample { at_ms, total, available, strained, page_out: Bytes::ZERO }
    }
}

/// Maximum number of swap areas in a kernel.
const SWAPS_MAX: usize = 32;
/// The host counts as short of memory if it swaps out this number of pages per second: 4 MiB.
const HOST_SWAP_OUT: f64 = 1024.0;
/// While tasks wait for memory, the host counts as short if it swaps in this number of pages per
/// second.
const HOST_SWAP_IN: f64 = 256.0;
/// The host counts as short if some task waits for memory for this share of time, in thousandths,
/// and the host also swaps in. Waiting alone means little, because tasks of a container at its own
/// limit also wait. Memory reclaimed from guests would not help such a container.
const HOST_PSI: f64 = 100.0;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostRates {
    pub swap_in_s: Option<f64>,
    pub swap_out_s: Option<f64>,
    pub psi_permille: Option<f64>,
}

/// Returns a counter's growth per second.
pub(crate) fn per_second(now: Option<u64>, before: Option<u64>, window_ms: u64) -> Option<f64> {
    let grown = now?.checked_sub(before?)?;
    (window_ms > 0).then(|| grown as f64 * 1000.0 / window_ms as f64)
}

impl HostRates {
    fn between(before: &Machine, now: &Machine, window_ms: u64) -> HostRates {
        let psi_us_s = per_second(now.psi_some_us, before.psi_some_us, window_ms);
        HostRates {
            swap_in_s: per_second(Some(now.swap_in), Some(before.swap_in), window_ms),
            swap_out_s: per_second(Some(now.swap_out), Some(before.swap_out), window_ms),
            psi_permille: psi_us_s.map(|us| us / 1000.0),
        }
    }

    /// Returns true if the host is short of memory, because it swaps out, or swaps in while tasks
    /// wait for memory.
    fn is_strained(&self) -> bool {
        let over = |rate: Option<f64>, limit: f64| rate.is_some_and(|rate| rate >= limit);
        over(self.swap_out_s, HOST_SWAP_OUT)
            || (over(self.psi_permille, HOST_PSI) && over(self.swap_in_s, HOST_SWAP_IN))
    }
}

/// The last reading of the host, and the rates since the previous reading.
#[derive(Debug, Default)]
pub(crate) struct HostMeter {
    last: Option<(Machine, u64)>,
    pub(crate) rates: HostRates,
}

impl HostMeter {
    /// Handles a reading. After a failed reading the host is unknown, and the arbiter moves
    /// nothing. Returns a message about the failure, once.
    pub(crate) fn observe(&mut self, read: Result<Machine, String>, now_ms: u64) -> Option<String> {
        match read {
            Ok(machine) => {
                if let Some((before, at)) = self.last {
                    self.rates = HostRates::between(&before, &machine, now_ms.saturating_sub(at));
                }
                self.last = Some((machine, now_ms));
                None
            }
            Err(error) => {
                let was_known = self.last.take().is_some();
                was_known.then(|| {
                    format!(
                        "The host's memory cannot be read, so the memory of all guests stays \
                         unchanged: {error}"
                    )
                })
            }
        }
    }

    pub(crate) fn machine(&self) -> Option<Machine> {
        self.last.map(|(machine, _)| machine)
    }

    /// Returns true if the host waits for memory or swaps.
    pub(crate) fn is_strained(&self) -> bool {
        self.rates.is_strained()
    }

    /// Returns the memory available for guests, within the budget, as in all decisions.
    pub(crate) fn available(&self, settings: &Settings, used: Bytes) -> Option<Bytes> {
        let machine = self.machine()?;
        Some(machine.sample(settings.budget(machine.total), used, false, 0).available)
    }

    /// Returns the arbiter's input, if the last reading of the host succeeded.
    pub(crate) fn sample(
        &self,
        settings: &Settings,
        used: Bytes,
        now_ms: u64,
    ) -> Option<HostSample> {
        let (machine, _) = self.last.filter(|(_, at)| *at == now_ms)?;
        let budget = settings.budget(machine.total);
        Some(machine.sample(budget, used, self.rates.is_strained(), now_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::FakeKernel;

    #[test]
    fn swapped_memory_takes_its_average_part_of_compressed_swap() {
        let (swapped, compressed) = (Bytes::mib(900), Bytes::mib(300));
        let machine = Machine { swapped, compressed, ..Machine::default() };
        assert_eq!(machine.compressed_of(Bytes::mib(90)), Some(Bytes::mib(30)));
        assert_eq!(Machine::default().compressed_of(Bytes::ZERO), Some(Bytes::ZERO));
        assert_eq!(Machine::default().compressed_of(Bytes::mib(1)), None);
    }

    #[test]
    fn report_h08_huge_pages_set_aside_are_no_part_of_the_host() {
        let kernel = FakeKernel::new(1, 1);
        let meminfo = "MemTotal: 67108864 kB\nMemAvailable: 5033164 kB\nHugetlb: 53248000 kB\n";
        kernel.write("proc/meminfo", meminfo);
        let mut reader = MachineReader::open(&kernel.root()).unwrap();
        let machine = reader.read().unwrap();
        let total = Bytes((67_108_864 - 53_248_000) << 10);
        assert_eq!((machine.total, machine.all), (total, Bytes::mib(65_536)));
        assert_eq!(machine.huge_pages, Bytes::mib(52_000));
        let set_point = policy::arbiter::Config::of_host(machine.total).set_point;
        assert!(machine.available > set_point, "nothing is lacking");
        let arc = "size 4 3221225472\nc_min 4 1073741824\n";
        kernel.write("proc/spl/kstat/zfs/arcstats", arc);
        let with_zfs = reader.read().unwrap();
        assert_eq!(with_zfs.available, machine.available.plus(Bytes::mib(2048)));
    }

    #[test]
    fn a_budget_bounds_what_is_free() {
        let machine =
            Machine { total: Bytes::mib(1000), available: Bytes::mib(600), ..Machine::default() };
        let free =
            |budget, used| machine.sample(budget, Bytes::mib(used), false, 7).available.as_mib();
        assert_eq!(free(None, 300), 600);
        assert_eq!(free(Some(Bytes::mib(500)), 300), 200);
        assert_eq!(free(Some(Bytes::mib(950)), 300), 600, "free memory is no more than the host's");
        assert_eq!(free(Some(Bytes::mib(100)), 300), 0);
    }
}
