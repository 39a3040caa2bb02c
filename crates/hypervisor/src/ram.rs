//! A guest's memory among the mappings of its process.

use std::io::{BufRead, Read};

use counters::Bytes;
use procfs::parse::{named, number, words};

use crate::Held;

/// No process has a list of mappings that is longer.
const SMAPS_MAX: u64 = 8 << 20;

/// Where a guest's memory lies in the addresses of its process. QEMU maps it in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RamMapping {
    /// Its first address.
    pub start: u64,
    /// What is written to it goes to the file behind it, and is the guest's alone all the same:
    /// such files are how other processes (network, disks) reach a guest's memory.
    pub is_shared: bool,
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

impl RamMapping {
    /// Finds it in the text of /proc/PID/maps: the smallest mapping for reading and writing, and
    /// not for running, that has room for the guest's memory. QEMU's caches of code are for
    /// running, and what else is as large as a guest is only reserved.
    pub fn find(maps: &[u8], memory: Bytes) -> Option<RamMapping> {
        let all = maps.split(|byte| *byte == b'\n').filter_map(Mapping::parse);
        let fits = all.filter(|one| one.is_data && one.end - one.start >= memory.0);
        let found = fits.min_by_key(|one| one.end - one.start)?;
        (memory > Bytes::ZERO).then_some(found.ram)
    }

    /// What of it is in the host's memory, by the text of /proc/PID/smaps, which is read no
    /// further than it has to be: the kernel walks the mappings as they are read.
    pub fn held(&self, smaps: impl Read) -> Option<Held> {
        let mut is_found = false;
        let (mut resident, mut private) = (0_u64, 0_u64);
        for line in std::io::BufReader::new(smaps.take(SMAPS_MAX)).split(b'\n') {
            let line = line.ok()?;
            if let Some(mapping) = Mapping::parse(&line) {
                if is_found {
                    break;
                }
                is_found = (mapping.start..mapping.end).contains(&self.start);
            } else if let Some((name, kib)) = named(&line).filter(|_| is_found) {
                let bytes = kib.saturating_mul(1024);
                match name {
                    b"Rss" => resident = resident.saturating_add(bytes),
                    b"Anonymous" => private = private.saturating_add(bytes),
                    // Huge pages that were set aside stand in no other line.
                    b"Shared_Hugetlb" | b"Private_Hugetlb" => {
                        resident = resident.saturating_add(bytes);
                        private = private.saturating_add(bytes);
                    }
                    _ => {}
                }
            }
        }
        let private = if self.is_shared { resident } else { private.min(resident) };
        let shared = Bytes(resident.saturating_sub(private));
        is_found.then_some(Held { private: Bytes(private), shared })
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
        let ram = RamMapping { start, is_shared: rights[3] == b's', file };
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
            RamMapping::find(text.as_bytes(), Bytes::mib(96))
        };
        let plain = RamMapping { start: 0x7f00_2000_0000, is_shared: false, file: None };
        assert_eq!(found("rw-p", "00:00 0"), Some(plain));
        let file = Some(BackingFile { device: (0xfe, 1), inode: 1234 });
        let template = found("rw-p", "fe:01 1234 /a/template (deleted)");
        assert_eq!(template, Some(RamMapping { file, ..plain }));
        let shared = found("rw-s", "fe:01 1234 /memfd:ram (deleted)");
        assert_eq!(shared, Some(RamMapping { file, is_shared: true, ..plain }));
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
            let ram = RamMapping::find(text.as_bytes(), Bytes::mib(96)).unwrap();
            ram.held(text.as_bytes()).unwrap()
        };
        let mib = Bytes::mib;
        assert_eq!(of("rw-p"), Held { private: mib(22), shared: mib(40) });
        assert_eq!(of("rw-s"), Held { private: mib(62), shared: Bytes::ZERO });
        let elsewhere = RamMapping { start: 1, is_shared: false, file: None };
        assert_eq!(elsewhere.held(&b"7f0010000000-7f0018000000 rw-p 0 0:0 0\n"[..]), None);
    }

    #[test]
    fn what_has_no_room_for_it_is_not_it() {
        let found = |mib| RamMapping::find(MAPS.as_bytes(), Bytes::mib(mib));
        assert_eq!(found(300), None);
        assert_eq!(found(0), None);
        let broken = "7f-6f rw-p 0 00:00 0\n7f00-zz rw-p 0 00:00 0\n1-2 rw 0 0:0 0\n\n-\n1-";
        assert_eq!(RamMapping::find(broken.as_bytes(), Bytes(1)), None);
    }
}
