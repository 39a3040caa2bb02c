//! Watermarks of the kernel's zones, below which the kernel reclaims memory, and pages on per-CPU
//! lists. The kernel does not count pages on these lists as free.

use model::{HostField, Row};
use std::path::Path;

use procfs::parse::{lines, number, words};
use procfs::{Buffer, Kept};

/// Interval between readings. The file is long, watermarks change only by configuration, and the
/// lists vary within narrow bounds.
const APART_MS: u64 = 15_000;

/// Keys of /proc/zoneinfo. Lines of per-CPU lists have a colon after the key.
const LINES: &[(&str, HostField)] = &[
    ("min", HostField::MinWatermark),
    ("low", HostField::LowWatermark),
    ("high", HostField::HighWatermark),
    ("count:", HostField::CpuLists),
];
const COUNT: usize = LINES.len();

/// Sums over all zones, as of the last reading.
#[derive(Debug)]
pub(crate) struct Watermarks {
    zoneinfo: Kept,
    read_ms: Option<u64>,
    sums: [Option<u64>; COUNT],
}

impl Watermarks {
    pub(crate) fn open(root: &Path) -> Watermarks {
        let zoneinfo = Kept::open(&root.join("proc/zoneinfo"));
        Watermarks { zoneinfo, read_ms: None, sums: [None; COUNT] }
    }

    /// Fills in the sums, and reads them again if a reading is due.
    pub(crate) fn read(
        &mut self,
        row: &mut Row<HostField>,
        page_bytes: u64,
        now_ms: u64,
        buffer: &mut Buffer,
    ) {
        if self.read_ms.is_none_or(|at| now_ms.saturating_sub(at) >= APART_MS) {
            self.read_ms = Some(now_ms);
            self.sums = self.zoneinfo.whole(buffer).map_or([None; COUNT], sums);
        }
        for ((_, field), pages) in LINES.iter().zip(self.sums) {
            row.set(*field, pages.and_then(|pages| pages.checked_mul(page_bytes)));
        }
    }
}

fn sums(text: &[u8]) -> [Option<u64>; COUNT] {
    let mut sums = [None; COUNT];
    for line in lines(text) {
        let mut words = words(line);
        let Some(name) = words.next() else { continue };
        let Some(at) = LINES.iter().position(|(known, _)| known.as_bytes() == name) else {
            continue;
        };
        if let (Some(pages), None) = (words.next().and_then(number), words.next()) {
            sums[at] = Some(pages.saturating_add(sums[at].unwrap_or(0)));
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn watermarks_do_not_include_lists_of_single_cpus() {
        let tree = Tree::new();
        let zone = [
            "Node 0, zone   DMA\n  pages free     100\n        boost    0\n",
            "        min      10\n        low      12\n        high     15\n",
            "    cpu: 0\n              count:    70\n",
            "              high:     378\n              min_x:  1\n",
        ]
        .concat();
        tree.file("proc/zoneinfo", &zone.repeat(2));
        let (mut marks, mut buffer) = (Watermarks::open(tree.path()), Buffer::default());
        let mut read = |now_ms| {
            let mut row = Row::default();
            marks.read(&mut row, 4096, now_ms, &mut buffer);
            LINES.iter().map(|(_, field)| row.get(*field)).collect::<Vec<_>>()
        };
        let expected = [20, 24, 30, 140].map(|pages| Some(pages * 4096));
        assert_eq!(read(1000), expected);
        tree.file("proc/zoneinfo", "        min      x\n        low      1 2\n");
        assert_eq!(read(1000 + APART_MS - 1), expected);
        assert_eq!(read(1000 + APART_MS), [None; COUNT]);
    }
}
