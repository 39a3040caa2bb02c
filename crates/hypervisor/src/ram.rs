//! A guest's memory among the mappings of its process: a piece for each memory node and DIMM.

use std::io::{BufRead, Read};

use counters::Bytes;
use procfs::parse::{named, number, words};

use crate::pageout::MEMORY_FILES;

/// No process has a list of mappings that is longer.
const SMAPS_MAX: u64 = 8 << 20;

/// The most pieces that a guest's memory is looked for in: QEMU has 128 nodes and 256 DIMMs.
const PIECES_MAX: usize = 384;

/// The shortest time between two changes of a guest's pieces that are told: with each, all of its
/// memory is walked to measure its hypervisor.
const CHANGES_MS: u64 = 60_000;

/// The last change of a guest's pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RamPace(Option<u64>);

impl RamPace {
    /// Takes the pieces of now, unless others were taken within a minute. Returns whether they
    /// are others than before.
    pub(crate) fn renew(&mut self, known: &mut Vec<Bytes>, now: Vec<Bytes>, now_ms: u64) -> bool {
        let is_soon = self.0.is_some_and(|at_ms| now_ms.saturating_sub(at_ms) < CHANGES_MS);
        if is_soon || *known == now {
            return false;
        }
        (self.0, *known) = (Some(now_ms), now);
        true
    }
}

/// The place of a piece of a guest's memory in the addresses of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RamMapping {
    /// Its first address.
    pub start: u64,
    /// What is written to it goes to the file behind it, and is the guest's alone all the same:
    /// such files are how other processes (network, disks) reach a guest's memory.
    pub is_shared: bool,
    /// That file has no other place than memory, by its name.
    pub is_memory_file: bool,
    /// The file that it comes from; a template, where what is written does not go there.
    pub file: Option<BackingFile>,
}

/// A file behind a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackingFile {
    /// Of its file system, major and minor number.
    pub device: (u64, u64),
    /// Its number there.
    pub inode: u64,
}

/// Memory of a process that is in the host's memory, each byte in one of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Memory that it has for itself.
    pub private: Bytes,
    /// Memory that others may have as well: pages of files, written to by none of them.
    pub shared: Bytes,
}

impl Held {
    /// Both.
    pub fn resident(self) -> Bytes {
        self.private.plus(self.shared)
    }
}

/// A guest's memory in its process: all of its pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestRam(Vec<RamMapping>);

impl GuestRam {
    /// Finds it in the text of /proc/PID/maps. `pieces` are the sizes of its pieces, by its
    /// hypervisor's word; without them, or where they are not all of it, it is one piece. A device
    /// that plugs memory in parts has a piece with room for all of them.
    ///
    /// A piece is the smallest mapping for reading and writing, and not for running, that has room
    /// for it. QEMU's caches of code are for running, and others as large as a guest are reserved.
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

    /// Returns whether some of it lies in files to which it is written.
    pub fn is_shared(&self) -> bool {
        self.0.iter().any(|piece| piece.is_shared)
    }

    /// Returns whether some of it lies in files that are nowhere but in memory.
    pub fn is_in_memory_file(&self) -> bool {
        self.0.iter().any(|piece| piece.is_shared && piece.is_memory_file)
    }

    /// The file that its memory comes from, which others may have it from as well.
    pub fn template(&self) -> Option<BackingFile> {
        self.0.iter().find(|piece| !piece.is_shared)?.file
    }

    /// Its first address, where it is in one piece.
    pub fn start(&self) -> Option<u64> {
        let [piece] = self.0.as_slice() else { return None };
        Some(piece.start)
    }

    /// What of it is in the host's memory, by the text of /proc/PID/smaps, which is read no
    /// further than it has to be: the kernel walks the mappings as they are read.
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
                    // Huge pages that were set aside stand in no other line.
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

/// A line of /proc/PID/maps.
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    is_data: bool,
    ram: RamMapping,
}

impl Mapping {
    /// Reads `7f00-7f10 rw-p 00000000 08:02 1234 /a/path`; the lines between those of
    /// /proc/PID/smaps are none.
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

/// Two hexadecimal numbers.
fn pair(text: &[u8], between: u8) -> Option<(u64, u64)> {
    let (one, other) = std::str::from_utf8(text).ok()?.split_once(char::from(between))?;
    Some((u64::from_str_radix(one, 16).ok()?, u64::from_str_radix(other, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a QEMU with 96 MiB: its program, a cache of code that is larger, a reserve that may not
    /// be touched, the guest's memory, and a heap.
    const MAPS: &str = "\
55d000000000-55d000900000 r-xp 00000000 fe:01 77 /usr/bin/qemu-system-x86_64
55d001000000-55d002000000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0010000000 rwxp 00000000 00:00 0
7f0010000000-7f0018000000 ---p 00000000 00:00 0
7f0020000000-7f0026000000 RIGHTS 00000000 FILE
7f0030000000-7f0040000000 rw-p 00000000 00:00 0
";

    #[test]
    fn a_guests_memory_is_found_whatever_it_lies_in() {
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
    fn what_of_it_is_there_is_told_from_its_neighbours() {
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
    fn what_has_no_room_for_it_is_not_it() {
        let found = |mib| GuestRam::find(MAPS.as_bytes(), Bytes::mib(mib), &[]);
        assert_eq!(found(300), None);
        assert_eq!(found(0), None);
        let broken = "7f-6f rw-p 0 00:00 0\n7f00-zz rw-p 0 00:00 0\n1-2 rw 0 0:0 0\n\n-\n1-";
        assert_eq!(GuestRam::find(broken.as_bytes(), Bytes(1), &[]), None);
    }

    /// Of a QEMU with two nodes of 128 MiB and a DIMM of 64: one node is shared.
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
        // Pieces that are not all of it tell nothing.
        assert_eq!(find(320, &[mib(128), mib(128)]).map(|ram| ram.0.len()), Some(1));
        assert_eq!(find(640, &[mib(128); 5]), None, "it has room for three of them");
        let many = vec![Bytes(1); PIECES_MAX + 1];
        let size = Bytes(many.len() as u64);
        let one = GuestRam::find(NODES.as_bytes(), size, &many).unwrap();
        assert_eq!(one.0.len(), 1);
    }
}
