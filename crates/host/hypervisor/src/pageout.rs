//! Page-out of a guest's memory by the host's own reclaim, from outside, while the guest runs.
//!
//! ```text
//!   /proc/PID/maps ─► the process's own memory ─► slices ─► process_madvise(MADV_PAGEOUT)
//! ```
//!
//! The kernel compresses or swaps the memory page by page, and faults each page in again when it is
//! touched. Page-out may therefore end at any time without a loss of data, and guests need not
//! cooperate. The kernel skips pages that several processes map.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use base::Bytes;
use procfs::{Buffer, Kept};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::ProcessId;
use crate::sys::{self, Stretch};

/// Size of a slice in bytes of addresses. One system call compresses the memory of a slice in a few
/// milliseconds. The caller may stop between two calls.
const SLICE: usize = 8 << 20;
/// Maximum number of stretches in one slice. The kernel accepts 1,024 stretches.
const STRETCHES_MAX: usize = 512;
/// Maximum number of slices of a process: two TiB of addresses. No guest's process has more.
const SLICES_MAX: usize = 1 << 18;
/// Path prefixes of files that exist only in memory, behind shared mappings.
pub(crate) const MEMORY_FILES: [&[u8]; 3] = [b"/memfd:", b"/dev/shm/", b"/dev/zero"];

/// Reason why no memory was paged out.
#[derive(Debug)]
pub enum PageOutError {
    /// The process has ended.
    Gone,
    /// The kernel lacks the call, or does not permit it.
    Refused(io::Error),
}

impl fmt::Display for PageOutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageOutError::Gone => f.write_str("the process has ended"),
            PageOutError::Refused(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                write!(f, "page-out needs root, or CAP_SYS_PTRACE and CAP_SYS_NICE: {error}")
            }
            PageOutError::Refused(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PageOutError {}

/// A process with memory that can be paged out.
#[derive(Debug)]
pub struct PageOut {
    process: OwnedFd,
    maps: Kept,
}

/// Part of a process's addresses, small enough for one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice(Vec<Stretch>);

impl PageOut {
    /// Checks that this kernel has the call, with an empty request for this process. Only a real
    /// call shows whether it is permitted for other processes.
    pub fn probe() -> Result<(), io::Error> {
        let process = pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
        sys::page_out(process.as_fd(), &[]).map(drop)
    }

    /// Pages out the process's own memory, starting with the first slice that ends behind this
    /// address. Each step of the iterator pages out one slice and returns the slice's end address.
    pub fn take_from(
        process: ProcessId,
        address: u64,
    ) -> Result<impl ExactSizeIterator<Item = Result<u64, PageOutError>>, PageOutError> {
        let memory = PageOut::open(process)?;
        let mut slices = memory.slices()?;
        slices.retain(|slice| slice.end() > address);
        Ok(slices.into_iter().map(move |slice| memory.take(&slice).map(|()| slice.end())))
    }

    /// Opens a process. `Gone` means that the process has ended, even if its number is used again.
    pub(crate) fn open(process: ProcessId) -> Result<PageOut, PageOutError> {
        let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
        let pidfd = pidfd_open(pid.ok_or(PageOutError::Gone)?, PidfdFlags::empty());
        let pidfd = pidfd.map_err(|errno| error(errno.into()))?;
        let path = format!("proc/{}/maps", process.pid);
        let maps = Kept::open(&Path::new("/").join(path));
        // If the process is still alive, both descriptors belong to it.
        match (process.is_alive(), maps.is_open()) {
            (true, true) => Ok(PageOut { process: pidfd, maps }),
            (true, false) => Err(refused("the process's mappings cannot be read")),
            (false, _) => Err(PageOutError::Gone),
        }
    }

    pub(crate) fn slices(&self) -> Result<Vec<Slice>, PageOutError> {
        let mut buffer = Buffer::default();
        let text = self.maps.whole(&mut buffer);
        text.map(Slice::all_of).ok_or_else(|| refused("its list of mappings is too long"))
    }

    /// Passes a slice to the kernel's reclaim. Stretches that the kernel cannot reclaim (locked, of
    /// huge pages, of a device) are skipped.
    fn take(&self, slice: &Slice) -> Result<(), PageOutError> {
        let mut rest = slice.0.as_slice();
        while !rest.is_empty() {
            let done = match sys::page_out(self.process.as_fd(), rest).map_err(error) {
                Ok(done) => done,
                Err(PageOutError::Refused(failure)) if !is_final(&failure) => 0,
                Err(failure) => return Err(failure),
            };
            // The kernel stopped at the first remaining stretch, which is skipped.
            rest = match after(rest, done) {
                [] => return Ok(()),
                [_, left @ ..] => left,
            };
        }
        Ok(())
    }
}

impl Slice {
    /// Returns the process's own memory from its /proc/PID/maps, cut and packed into slices.
    pub fn all_of(maps: &[u8]) -> Vec<Slice> {
        let mut slices = vec![Slice::default()];
        let mut room = SLICE;
        let mut before = None;
        for mapping in maps.split(|byte| *byte == b'\n').filter_map(Mapping::read) {
            let relocated = before.replace(mapping).filter(|before| before.is_relocated(&mapping));
            for Mapping { start, end, .. } in relocated.into_iter().chain(mapping.own()) {
                pack(&mut slices, &mut room, start, end);
            }
        }
        slices.retain(|slice| !slice.0.is_empty());
        slices
    }

    pub(crate) fn stretches(&self) -> &[Stretch] {
        &self.0
    }

    /// Returns the end address of the last stretch. Slices of a process are sorted by address.
    pub fn end(&self) -> u64 {
        self.0
            .last()
            .map_or(0, |stretch| (stretch.start as u64).saturating_add(stretch.length as u64))
    }

    /// Returns the size of the address ranges, whether or not memory is behind all of them.
    pub fn size(&self) -> Bytes {
        Bytes(self.0.iter().map(|stretch| stretch.length as u64).sum())
    }
}

fn refused(why: &str) -> PageOutError {
    PageOutError::Refused(io::Error::other(why))
}

fn error(failure: io::Error) -> PageOutError {
    match failure.raw_os_error() == Some(Errno::SRCH.raw_os_error()) {
        true => PageOutError::Gone,
        false => PageOutError::Refused(failure),
    }
}

/// Returns true if the call would fail in the same way for all memory of the process.
fn is_final(failure: &io::Error) -> bool {
    let all = [Errno::PERM, Errno::NOSYS, Errno::BADF, Errno::ACCESS];
    all.iter().any(|errno| failure.raw_os_error() == Some(errno.raw_os_error()))
}

/// Returns the stretches that are not complete after this many bytes.
fn after(stretches: &[Stretch], mut done: usize) -> &[Stretch] {
    let mut rest = stretches;
    while let [first, others @ ..] = rest
        && done >= first.length
    {
        done -= first.length;
        rest = others;
    }
    rest
}

fn pack(slices: &mut Vec<Slice>, room: &mut usize, mut start: usize, end: usize) {
    while start < end && slices.len() <= SLICES_MAX {
        let length = (end - start).min(*room);
        if let Some(slice) = slices.last_mut() {
            slice.0.push(Stretch { start, length });
            *room -= length;
            if *room == 0 || slice.0.len() >= STRETCHES_MAX {
                slices.push(Slice::default());
                *room = SLICE;
            }
        }
        start += length;
    }
}

/// A line of /proc/PID/maps.
#[derive(Clone, Copy)]
struct Mapping<'a> {
    start: usize,
    end: usize,
    rights: &'a [u8],
    offset: usize,
    device: &'a [u8],
    inode: &'a [u8],
    file: &'a [u8],
}

impl<'a> Mapping<'a> {
    fn read(line: &'a [u8]) -> Option<Mapping<'a>> {
        let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let (range, rights) = (words.next()?, words.next()?);
        let (offset, device, inode) = (words.next()?, words.next()?, words.next()?);
        let file = words.next().unwrap_or_default();
        let at = range.iter().position(|byte| *byte == b'-')?;
        let number =
            |digits: &[u8]| usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        let (start, end) = (number(range.get(..at)?)?, number(range.get(at + 1..)?)?);
        let offset = number(offset)?;
        (start <= end).then_some(Mapping { start, end, rights, offset, device, inode, file })
    }

    /// Returns the mapping if it is the process's own memory: writable, and private or of a file
    /// that exists only in memory.
    fn own(self) -> Option<Mapping<'a>> {
        let is_memory = MEMORY_FILES.iter().any(|begin| self.file.starts_with(begin));
        let is_device = self.file.starts_with(b"/dev/") && !is_memory;
        let is_own = match self.rights {
            [_, b'w', _, b'p', ..] => !is_device,
            [_, b'w', _, b's', ..] => is_memory,
            _ => false,
        };
        is_own.then_some(self)
    }

    /// Returns true if the dynamic linker wrote to this mapping and then made it read-only (RELRO).
    /// Such a mapping is the start of the program's data, and `next` is the rest. Each process has
    /// its own copy of the data. In QEMU with its libraries, these read-only parts exceed 3 MiB.
    fn is_relocated(&self, next: &Mapping<'_>) -> bool {
        let is_data = matches!(next.rights, [_, b'w', _, b'p', ..]);
        let is_file = self.file.starts_with(b"/") && !self.file.starts_with(b"/dev/");
        matches!(self.rights, b"r--p")
            && is_data
            && is_file
            && self.end == next.start
            && (self.device, self.inode) == (next.device, next.inode)
            && self.offset.checked_add(self.end - self.start) == Some(next.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mappings as in QEMU: a program, a heap, a device and a mapping of the kernel. Guest memory
    /// appears in three kinds: backed by a file, in a memfd, and anonymous.
    const MAPS: &str = "\
55d0e0000000-55d0e0800000 r-xp 00000000 fe:00 1234                       /usr/bin/qemu (deleted)
55d0e0a00000-55d0e0e00000 r--p 00800000 fe:00 1234                       /usr/bin/qemu (deleted)
55d0e0f00000-55d0e1000000 r--p 00900000 fe:00 1234                       /usr/bin/qemu (deleted)
55d0e1000000-55d0e1020000 rw-p 00a00000 fe:00 1234                       /usr/bin/qemu (deleted)
55d0e1800000-55d0e1900000 r--p 00600000 fe:00 1235                       /usr/lib/without relro
55d0e1900000-55d0e1901000 rw-p 00600000 fe:00 1235                       /usr/lib/without relro
55d0e2000000-55d0e2001000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0001800000 rw-p 00000000 fe:00 77                         /var/cache/a template
7f0010000000-7f0010100000 rw-s 00000000 00:01 9                          /memfd:ram (deleted)
7f0020000000-7f0020100000 rw-s 00000000 fe:00 78                         /srv/disk.raw
7f0030000000-7f0030100000 rw-s 00000000 00:05 11                         /dev/kvm
7f0040000000-7f0040010000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00100000 r--p 00000000 00:00 0                          [vvar]
not a line
7f0050000000-6f0050000000 rw-p 00000000 00:00 0
";

    #[test]
    fn refused_page_out_names_the_rights_it_needs() {
        let refused = |errno: Errno| PageOutError::Refused(errno.into()).to_string();
        assert!(refused(Errno::PERM).contains("needs root, or CAP_SYS_PTRACE and CAP_SYS_NICE"));
        assert!(!refused(Errno::NOSYS).contains("CAP_SYS_NICE"));
    }

    #[test]
    fn own_memory_is_cut_into_slices_and_nothing_else_is() {
        let found = Slice::all_of(MAPS.as_bytes());
        assert!(found.iter().all(|slice| slice.size().0 <= SLICE as u64));
        let all: u64 = found.iter().map(|slice| slice.size().0).sum();
        let expected = 0x10_0000 + 0x20000 + 2 * 0x1000 + 0x180_0000 + 0x10_0000 + 0x10000;
        assert_eq!(all, expected, "relocated, data, heap, template, memfd, anonymous");
        let has = |start: usize| found.iter().any(|slice| slice.0.iter().any(|s| s.start == start));
        assert!(has(0x7f00_0000_0000) && has(0x7f00_1000_0000) && has(0x7f00_4000_0000));
        assert!(has(0x55d0_e0f0_0000), "relocated data is the process's own");
        assert!(!has(0x55d0_e000_0000), "code is the file's");
        assert!(!has(0x55d0_e0a0_0000), "constants are the file's");
        assert!(!has(0x55d0_e180_0000), "constants are the file's even if data follows");
        assert!(!has(0x7f00_2000_0000), "a file on a disk is not memory");
        assert!(!has(0x7f00_3000_0000), "a device is not memory");
        assert!(Slice::all_of(b"").is_empty());
    }

    #[test]
    fn finished_stretches_are_skipped() {
        let stretch = |start: usize| Stretch { start, length: 10 };
        let all = [stretch(0), stretch(100), stretch(200)];
        assert_eq!(after(&all, 0), &all);
        assert_eq!(after(&all, 10), &all[1..]);
        assert_eq!(after(&all, 25), &all[2..], "the kernel stopped within the third");
        assert_eq!(after(&all, 30), &[]);
    }

    #[test]
    fn ended_process_is_gone() {
        let ended = ProcessId { pid: u32::MAX, start_ticks: 1 };
        assert!(matches!(PageOut::open(ended), Err(PageOutError::Gone)));
        let mut another = ProcessId::of(std::process::id()).unwrap();
        another.start_ticks += 1;
        assert!(matches!(PageOut::open(another), Err(PageOutError::Gone)), "reused number");
    }
}
