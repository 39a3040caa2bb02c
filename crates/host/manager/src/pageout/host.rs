//! The host's state for page-out: its swap, the content of compressed swap, and its pressure.

use crate::machine::zram_swaps;
use base::Bytes;
use model::counters::{Counter, PsiField, PsiLine, PsiResource};
use policy::pageout::HostSample;
use procfs::{Buffer, Reader, Root, parse};
use std::path::{Path, PathBuf};

/// Compressed swap of all devices together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compressed {
    /// Uncompressed size of the stored data.
    pub stored: Bytes,
    /// Compressed size of the stored data.
    pub takes: Bytes,
    /// Fill level of the fullest device with a memory limit, in thousandths of that limit.
    pub full_permille: u64,
}

impl Compressed {
    /// Reads the compressed swap below this root. `None` means that no swap is compressed.
    pub(crate) fn read(root: &Path, buffer: &mut Buffer) -> Option<Compressed> {
        let mut all = None;
        for file in zram_swaps(root, buffer) {
            let counts = file.once(buffer).and_then(parse::numbers);
            let Some([stored, takes, used, limit]) = counts else { continue };
            let all: &mut Compressed = all.get_or_insert_default();
            all.stored = all.stored.plus(Bytes(stored));
            all.takes = all.takes.plus(Bytes(takes));
            all.full_permille = all.full_permille.max(permille(used, limit));
        }
        all
    }
}

/// Returns a part in thousandths of the whole, or 0 if the whole is 0.
fn permille(part: u64, whole: u64) -> u64 {
    part.saturating_mul(1000).checked_div(whole).unwrap_or(0)
}

/// Reader of the host's state, with files that stay open.
#[derive(Debug)]
pub(crate) struct HostReader {
    root: PathBuf,
    swap: Option<Reader>,
    pressure: Option<Reader>,
    buffer: Buffer,
}

impl HostReader {
    pub(crate) fn open(root: &Path) -> HostReader {
        let meminfo = |name: &str| Counter::Meminfo(name.into());
        let psi = |field| Counter::Psi(PsiResource::Memory, PsiLine::Some, field);
        let at = Root::at(root);
        HostReader {
            root: root.to_owned(),
            swap: Reader::open(&at, &[meminfo("SwapTotal"), meminfo("SwapFree")]).ok(),
            pressure: Reader::open(&at, &[psi(PsiField::Avg10), psi(PsiField::Avg60)]).ok(),
            buffer: Buffer::default(),
        }
    }

    pub(crate) fn read(&mut self, lack: Bytes) -> HostSample {
        let swap = row(self.swap.as_mut()).map(|row| row.map(|kib| kib as u64 * 1024));
        let compressed = Compressed::read(&self.root, &mut self.buffer).unwrap_or_default();
        let waited = row(self.pressure.as_mut()).map(|[a, b]| a.max(b));
        HostSample {
            swap_total: swap.map(|[total, _]| Bytes(total)),
            swap_full_permille: swap.map(|[total, free]| {
                permille(total.saturating_sub(free), total).max(compressed.full_permille)
            }),
            pressure: waited.map(|percent| (percent * 100.0).round() as u64),
            lack,
        }
    }
}

fn row(reader: Option<&mut Reader>) -> Option<[f64; 2]> {
    let mut row = [f64::NAN; 2];
    reader?.read(0.0, &mut row).ok()?;
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::Tree;

    #[test]
    fn swap_its_memory_and_pressure_are_read_and_the_fuller_counts() {
        let tree = Tree::create();
        tree.file("proc/meminfo", "SwapTotal: 1000 kB\nSwapFree: 900 kB\n");
        let psi = "some avg10=0.05 avg60=0.12 avg300=0.00 total=5\n\
                   full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        tree.file("proc/pressure/memory", psi);
        let swaps = "Filename Type Size Used Priority\n/dev/zram0 partition 1000 100 5\n\
                     /dev/zram1 partition 10 0 5\n/swapfile file 10 0 -2\n";
        tree.file("proc/swaps", swaps);
        tree.file("sys/block/zram0/mm_stat", " 8192 2048 3000 4000 3000 0 0 0 0\n");
        tree.file("sys/block/zram1/mm_stat", "4096 1024 3000 0 3000 0 0 0 0\n");
        let sample = HostReader::open(&tree).read(Bytes(7));
        assert_eq!(
            sample,
            HostSample {
                swap_total: Some(Bytes(1_024_000)),
                swap_full_permille: Some(750),
                pressure: Some(12),
                lack: Bytes(7),
            }
        );
        let compressed = Compressed::read(&tree, &mut Buffer::default()).unwrap();
        assert_eq!((compressed.stored, compressed.takes), (Bytes(12_288), Bytes(3072)));
        tree.file("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1000 1 5\n");
        assert_eq!(Compressed::read(&tree, &mut Buffer::default()), None);
        let nothing = HostReader::open(&tree.join("none")).read(Bytes::ZERO);
        assert_eq!(nothing, HostSample::default(), "unknown is not 0");
    }
}
