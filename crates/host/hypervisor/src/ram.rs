//! Guest memory among the mappings of its process: a block for each memory node and DIMM.

use std::io::{BufRead, Read};

use base::Bytes;
use procfs::parse::{named, number, words};

use crate::pageout::MEMORY_FILES;

/// Maximum number of bytes read of smaps. No process has a longer list of mappings.
const SMAPS_MAX: u64 = 8 << 20;

/// Maximum number of blocks of a guest's memory: QEMU has 128 nodes and 256 DIMMs.
const PIECES_MAX: usize = 384;

/// Shortest time between two reported changes of a guest's blocks. Each change makes the kernel
/// walk all guest memory to measure the hypervisor's own memory.
const CHANGES_MS: u64 = 60_000;

/// Time of the last change of a guest's blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RamPace(Option<u64>);

impl RamPace {
    /// Stores the current blocks, unless a change was stored within the last minute. Returns true
    /// if the blocks have changed.
    pub(crate) fn renew(&mut self, known: &mut Vec<Bytes>, now: Vec<Bytes>, now_ms: u64) -> bool {
        let is_soon = self.0.is_some_and(|at_ms| now_ms.saturating_sub(at_ms) < CHANGES_MS);
        if is_soon || *known == now {
            return false;
        }
        (self.0, *known) = (Some(now_ms), now);
        true
    }
}

/// Mapping of a block of guest memory in its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RamMapping {
    /// First address.
    pub start: u64,
    /// True if writes go to the file behind the mapping. The memory still belongs to the guest
    /// alone. Helper processes (for network or disks) access a guest's memory through such files.
    pub is_shared: bool,
    /// True if the file exists only in memory, by its name.
    pub is_memory_file: bool,
    /// File behind the mapping. For a private mapping the file is a template.
    pub file: Option<BackingFile>,
}

/// A file behind a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackingFile {
    /// Major and minor number of the file system.
    pub device: (u64, u64),
    /// Inode number in the file system.
    pub inode: u64,
}

/// Resident memory of a process. Each byte counts in one of the two parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Memory of this process only.
    pub private: Bytes,
    /// Memory that other processes may share, such as pages of files not written to by this
    /// process.
    pub shared: Bytes,
}

impl Held {
    /// Returns the sum of both parts.
    pub fn resident(self) -> Bytes {
        self.private.plus(self.shared)
    }
}

/// Guest memory in its process: all of its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestRam(Vec<RamMapping>);

impl GuestRam {
    /// Finds the memory in the text of /proc/PID/maps. `pieces` are the sizes of the blocks, as the
    /// hypervisor reports them. Without sizes, or if their sum is too small, the memory is one
    /// block. A device that plugs memory in parts has one block with room for all parts.
    ///
    /// Each block is found in the smallest mapping with enough room. The mapping must be readable
    /// and writable, but not executable. QEMU's code caches are executable, and other mappings as
    /// large as a guest are inaccessible reserves.
    pub fn find(maps: &[u8], memory: Bytes, pieces: &[Bytes]) -> Option<GuestRam> {
        let is_told = pieces.len() <= PIECES_MAX && pieces.iter().copied().sum::<Bytes>() >= memory;
        let mut sizes = if is_told { pieces.to_vec() } else { vec![memory] };
        sizes.retain(|size| *size > Bytes::ZERO);
        sizes.sort();
        let all = maps.split(|byte| *byte == b'\n').filter_map(Mapping::parse);
        let mut all: Vec<Mapping> = all.filter(|one| one.is_data).collect();
        all.sort_by_key(|one| one.end - one.start);
        let mut all = all.into_iter();
        let piece = |size: Bytes| Some(all.find(|one| one.end - one.start >= size.0)?.ram);
        let found: Vec<RamMapping> = sizes.into_iter().map(piece).collect::<Option<_>>()?;
        (!found.is_empty()).then_some(GuestRam(found))
    }

    /// Returns true if a part of the memory is a shared mapping of a file.
    pub fn is_shared(&self) -> bool {
        self.0.iter().any(|piece| piece.is_shared)
    }

    /// Returns true if a part of the memory is shared through a file that exists only in memory.
    pub fn is_in_memory_file(&self) -> bool {
        self.0.iter().any(|piece| piece.is_shared && piece.is_memory_file)
    }

    /// Returns the template file of the memory, which other processes may map as well.
    pub fn template(&self) -> Option<BackingFile> {
        self.0.iter().find(|piece| !piece.is_shared)?.file
    }

    /// Returns the first address if the memory is one block.
    pub fn start(&self) -> Option<u64> {
        let [piece] = self.0.as_slice() else { return None };
        Some(piece.start)
    }

    /// Returns the resident part of the memory from the text of /proc/PID/smaps. Reading stops as
    /// soon as possible, because the kernel walks the mappings during the read.
    pub fn held(&self, smaps: impl Read) -> Option<Held> {
        let mut left = self.0.len();
        let mut found: Option<&RamMapping> = None;
        let (mut resident, mut private) = (0_u64, 0_u64);
        for line in std::io::BufReader::new(smaps.take(SMAPS_MAX)).split(b'\n') {
            let line = line.ok()?;
            if let Some(mapping) = Mapping::parse(&line) {
                if left == 0 {
                    break;
                }
                let is_it =
                    |piece: &&RamMapping| (mapping.start..mapping.end).contains(&piece.start);
                found = self.0.iter().find(is_it);
                left -= usize::from(found.is_some());
            } else if let (Some(piece), Some((name, kib))) = (found, named(&line)) {
                let bytes = kib.saturating_mul(1024);
                match name {
                    b"Rss" => {
                        resident = resident.saturating_add(bytes);
                        let own = if piece.is_shared { bytes } else { 0 };
                        private = private.saturating_add(own);
                    }
                    b"Anonymous" if !piece.is_shared => private = private.saturating_add(bytes),
                    // Reserved huge pages appear in no other line.
                    b"Shared_Hugetlb" | b"Private_Hugetlb" => {
                        resident = resident.saturating_add(bytes);
                        private = private.saturating_add(bytes);
                    }
                    _ => {}
                }
            }
        }
        let private = private.min(resident);
        let shared = Bytes(resident.saturating_sub(private));
        (left == 0).then_some(Held { private: Bytes(private), shared })
    }
}

pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    is_data: bool,
    ram: RamMapping,
}

impl Mapping {
    /// Parses `7f00-7f10 rw-p 00000000 08:02 1234 /a/path`. For other lines of /proc/PID/smaps it
    /// returns `None`.
    pub(crate) fn parse(line: &[u8]) -> Option<Mapping> {
        let mut words = words(line);
        let (start, end) = pair(words.next()?, b'-')?;
        let rights: [u8; 4] = words.next()?.try_into().ok()?;
        let device = pair(words.nth(1)?, b':')?;
        let inode = number(words.next()?)?;
        let file = (inode > 0).then_some(BackingFile { device, inode });
        let path = words.next().unwrap_or_default();
        let is_memory_file = MEMORY_FILES.iter().any(|begin| path.starts_with(begin));
        let ram = RamMapping { start, is_shared: rights[3] == b's', is_memory_file, file };
        (start < end).then_some(Mapping { start, end, is_data: rights.starts_with(b"rw-"), ram })
    }
}

fn pair(text: &[u8], between: u8) -> Option<(u64, u64)> {
    let (one, other) = std::str::from_utf8(text).ok()?.split_once(char::from(between))?;
    Some((u64::from_str_radix(one, 16).ok()?, u64::from_str_radix(other, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mappings of a QEMU with 96 MiB: its program, a larger code cache, an inaccessible reserve,
    /// guest memory, and a heap.
    const MAPS: &str = "\
55d000000000-55d000900000 r-xp 00000000 fe:01 77 /usr/bin/qemu-system-x86_64
55d001000000-55d002000000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0010000000 rwxp 00000000 00:00 0
7f0010000000-7f0018000000 ---p 00000000 00:00 0
7f0020000000-7f0026000000 RIGHTS 00000000 FILE
7f0030000000-7f0040000000 rw-p 00000000 00:00 0
";

    #[test]
    fn guest_memory_is_found_in_any_kind_of_mapping() {
        let found = |rights: &str, file: &str| {
            let text = MAPS.replace("RIGHTS", rights).replace("FILE", file);
            GuestRam::find(text.as_bytes(), Bytes::mib(96), &[])
        };
        let one = |piece| Some(GuestRam(vec![piece]));
        let (start, is_shared, is_memory_file) = (0x7f00_2000_0000, false, false);
        let plain = RamMapping { start, is_shared, is_memory_file, file: None };
        assert_eq!(found("rw-p", "00:00 0"), one(plain));
        let file = Some(BackingFile { device: (0xfe, 1), inode: 1234 });
        let template = found("rw-p", "fe:01 1234 /a/template (deleted)");
        assert_eq!(template, one(RamMapping { file, ..plain }));
        let shared = found("rw-s", "fe:01 1234 /memfd:ram (deleted)");
        assert_eq!(
            shared,
            one(RamMapping { file, is_shared: true, is_memory_file: true, ..plain })
        );
    }

    #[test]
    fn resident_part_excludes_neighbouring_mappings() {
        let of = |rights: &str| {
            let file = "7f0020000000-7f0026000000 rw-p 00000000 fe:01 1234 /a/template\n";
            let text = format!(
                "7f0010000000-7f0018000000 rw-p 00000000 00:00 0\nRss: 700 kB\n\
                 Anonymous: 700 kB\n{}Size: 98304 kB\nRss: 61440 kB\nPss: 21000 kB\n\
                 Anonymous: 20480 kB\nPrivate_Hugetlb: 2048 kB\nVmFlags: rd wr mr\n\
                 7f0030000000-7f0040000000 rw-p 00000000 00:00 0\nRss: 900 kB\n",
                file.replace("rw-p", rights)
            );
            let ram = GuestRam::find(text.as_bytes(), Bytes::mib(96), &[]).unwrap();
            ram.held(text.as_bytes()).unwrap()
        };
        let mib = Bytes::mib;
        assert_eq!(of("rw-p"), Held { private: mib(22), shared: mib(40) });
        assert_eq!(of("rw-s"), Held { private: mib(62), shared: Bytes::ZERO });
        let elsewhere = GuestRam(vec![RamMapping {
            start: 1,
            is_shared: false,
            is_memory_file: false,
            file: None,
        }]);
        assert_eq!(elsewhere.held(&b"7f0010000000-7f0018000000 rw-p 0 0:0 0\n"[..]), None);
    }

    #[test]
    fn mapping_without_room_is_not_guest_memory() {
        let found = |mib| GuestRam::find(MAPS.as_bytes(), Bytes::mib(mib), &[]);
        assert_eq!(found(300), None);
        assert_eq!(found(0), None);
        let broken = "7f-6f rw-p 0 00:00 0\n7f00-zz rw-p 0 00:00 0\n1-2 rw 0 0:0 0\n\n-\n1-";
        assert_eq!(GuestRam::find(broken.as_bytes(), Bytes(1), &[]), None);
    }

    /// Mappings of a QEMU with two nodes of 128 MiB and a DIMM of 64 MiB. One node is shared.
    const NODES: &str = "\
55d001000000-55d002000000 rw-p 00000000 00:00 0 [heap]
Rss: 3000 kB
7f0000000000-7f0008000000 rw-p 00000000 00:00 0
Rss: 65536 kB
Anonymous: 65536 kB
7f0010000000-7f0018000000 rw-s 00000000 00:01 7 /memfd:ram (deleted)
Rss: 32768 kB
Anonymous: 0 kB
7f0020000000-7f0024000000 rw-p 00000000 00:00 0
Rss: 16384 kB
Anonymous: 16384 kB
7f0030000000-7f0050000000 rw-p 00000000 00:00 0
Rss: 500 kB
";

    #[test]
    fn report_h15_pieces_of_a_guests_memory_are_found_together() {
        let mib = Bytes::mib;
        let find = |memory, pieces: &[Bytes]| GuestRam::find(NODES.as_bytes(), mib(memory), pieces);
        let ram = find(320, &[mib(128), mib(64), mib(128)]).unwrap();
        assert_eq!((ram.0.len(), ram.is_shared(), ram.start()), (3, true, None));
        let held = Held { private: mib(64 + 32 + 16), shared: Bytes::ZERO };
        assert_eq!(ram.held(NODES.as_bytes()), Some(held));
        // Blocks that do not add up are ignored.
        assert_eq!(find(320, &[mib(128), mib(128)]).map(|ram| ram.0.len()), Some(1));
        assert_eq!(find(640, &[mib(128); 5]), None, "there is room for three blocks");
        let many = vec![Bytes(1); PIECES_MAX + 1];
        let size = Bytes(many.len() as u64);
        let one = GuestRam::find(NODES.as_bytes(), size, &many).unwrap();
        assert_eq!(one.0.len(), 1);
    }
}
