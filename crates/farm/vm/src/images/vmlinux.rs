//! Kernels without their decompressor, because under emulation each guest would decompress the
//! kernel again.
//!
//! ```text
//!   vmlinuz: setup │ decompressor │ LZ4: vmlinux ─► CACHE/…/boot/vmlinux-RELEASE
//! ```
//!
//! QEMU maps such a file, so that all guests share its pages in the host's page cache. A vmlinuz,
//! in contrast, is copied by each QEMU. Each guest then runs the decompressor, and never returns
//! the memory of the decompressor's input and output to the host. QEMU starts the kernel at its PVH
//! entry, which exists for this purpose.

use std::fs;
use std::path::{Path, PathBuf};

use crate::images::Error;
use crate::images::elf::Elf;
use crate::images::error::FileContext;
use crate::images::files::write_whole;

/// `HdrS` at its offset in the boot protocol, and the first version with the offset of the payload.
const HEADER: (usize, &[u8; 4]) = (0x202, b"HdrS");
const VERSION_MIN: u16 = 0x208;
/// Magic number of the LZ4 format that the kernel's build uses, and the size of its blocks.
const LZ4: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];
const BLOCK_BYTES: usize = 8 << 20;
/// Maximum size of a kernel, in bytes. A file that unpacks to more is broken.
const BYTES_MAX: usize = 512 << 20;
/// Name and type of the ELF note that contains the PVH entry.
const NOTE: (&[u8; 4], u32) = (b"Xen\0", 18);

/// Returns the kernel for QEMU: the unwrapped kernel in the same directory, which is made if
/// needed. If the kernel cannot be unwrapped here, the given kernel is returned. The caller must
/// hold the cache's lock.
pub(crate) fn beside(kernel: &Path) -> Result<PathBuf, Error> {
    let name = kernel.file_name().and_then(|name| name.to_str());
    let Some(release) = name.and_then(|name| name.strip_prefix("vmlinuz-")) else {
        return Ok(kernel.to_owned());
    };
    let path = kernel.with_file_name(format!("vmlinux-{release}"));
    if path.is_file() {
        return Ok(path);
    }
    let wrapped = fs::read(kernel).file("read", kernel)?;
    let Some(bytes) = unwrap(&wrapped) else { return Ok(kernel.to_owned()) };
    write_whole(&path, &bytes)?;
    Ok(path)
}

/// Returns the kernel in a bzImage, if it is compressed with LZ4 and can start without the rest of
/// the bzImage.
pub fn unwrap(wrapped: &[u8]) -> Option<Vec<u8>> {
    let (at, magic) = HEADER;
    if wrapped.get(at..at + magic.len())? != magic || u16_at(wrapped, 0x206)? < VERSION_MIN {
        return None;
    }
    // Zero means four sectors, as in old kernels.
    let sectors = match *wrapped.get(0x1f1)? {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let start = (sectors + 1) * 512 + u32_at(wrapped, 0x248)?;
    let payload = wrapped.get(start..)?.get(..u32_at(wrapped, 0x24c)?)?;
    let kernel = unpack(payload.strip_prefix(&LZ4)?)?;
    has_pvh_entry(&kernel).then_some(kernel)
}

/// Unpacks blocks. The size of each block precedes it. The kernel's build appends the total size to
/// the last block.
fn unpack(mut blocks: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    while blocks.len() > 4 {
        let (block, rest) = blocks.split_at(4);
        let (block, rest) = rest.split_at_checked(u32_at(block, 0)?)?;
        out.extend(lz4_flex::block::decompress(block, BLOCK_BYTES).ok()?);
        if out.len() > BYTES_MAX {
            return None;
        }
        blocks = rest;
    }
    Some(out)
}

/// Returns true if a note of the ELF file contains the PVH entry, at which QEMU starts the kernel.
fn has_pvh_entry(kernel: &[u8]) -> bool {
    Elf::new(kernel).is_some_and(|elf| elf.notes().any(has_note))
}

fn has_note(mut notes: &[u8]) -> bool {
    let (name, kind) = NOTE;
    loop {
        let next = || {
            let (name_bytes, bytes) = (u32_at(notes, 0)?, u32_at(notes, 4)?);
            let found = u32_at(notes, 8)? == kind as usize && notes.get(12..16)? == name;
            let rest = 12 + name_bytes.next_multiple_of(4) + bytes.next_multiple_of(4);
            Some((found, notes.get(rest..)?))
        };
        match next() {
            None => return false,
            Some((true, _)) => return true,
            Some((false, rest)) => notes = rest,
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8; 4], kind: u32) -> Vec<u8> {
        let mut out = Vec::new();
        for word in [4, 8, kind] {
            out.extend(u32::to_le_bytes(word));
        }
        out.extend(name);
        out.extend([0; 8]);
        out
    }

    fn elf(last: &[u8]) -> Vec<u8> {
        let notes = [note(b"Xen\0", 6), last.to_vec(), vec![0; 12]].concat();
        let mut elf = b"\x7fELF\x02\x01".to_vec();
        elf.resize(0x40 + 0x38, 0);
        elf[0x20] = 0x40;
        elf[0x36] = 0x38;
        elf[0x38] = 1;
        elf[0x40] = 4;
        elf[0x48] = 0x78;
        elf[0x60] = notes.len() as u8;
        elf.extend(notes);
        elf
    }

    fn wrapped(kernel: &[u8]) -> Vec<u8> {
        let mut payload = LZ4.to_vec();
        for part in kernel.chunks(100) {
            let block = lz4_flex::block::compress(part);
            payload.extend(u32::to_le_bytes(block.len() as u32));
            payload.extend(block);
        }
        payload.extend(u32::to_le_bytes(kernel.len() as u32));
        let mut out = vec![0; 5 * 512 + 16];
        out[0x1f1] = 4;
        out[0x202..0x206].copy_from_slice(b"HdrS");
        out[0x206..0x208].copy_from_slice(&[0x0f, 0x02]);
        out[0x248] = 16;
        out[0x24c..0x250].copy_from_slice(&u32::to_le_bytes(payload.len() as u32));
        out.extend(payload);
        out.extend([7; 100]);
        out
    }

    #[test]
    fn a_kernel_with_the_entry_is_unwrapped() {
        let kernel = elf(&note(b"Xen\0", 18));
        assert_eq!(unwrap(&wrapped(&kernel)), Some(kernel));
        for other in [note(b"Xen\0", 17), note(b"GNU\0", 18), Vec::new()] {
            assert_eq!(unwrap(&wrapped(&elf(&other))), None);
        }
    }

    #[test]
    fn broken_and_other_kernels_are_left_as_they_are() {
        let whole = wrapped(&elf(&note(b"Xen\0", 18)));
        for length in 0..whole.len() - 100 {
            assert_eq!(unwrap(&whole[..length]), None, "{length} bytes of it");
        }
        for at in [0x202, 5 * 512 + 16, 5 * 512 + 22] {
            let mut other = whole.clone();
            other[at] = !other[at];
            assert_eq!(unwrap(&other), None, "byte {at}");
        }
        let mut other = whole;
        other[0x206] = 7;
        other[0x207] = 2;
        assert_eq!(unwrap(&other), None, "an old protocol");
    }

    #[test]
    fn unwrapped_kernel_is_made_once_beside_the_original() {
        let directory = crate::Scratch::new("images-vmlinux").unwrap();
        let (kernel, other) = (directory.join("vmlinuz-6.1"), directory.join("vmlinuz-6.2"));
        let content = elf(&note(b"Xen\0", 18));
        fs::write(&kernel, wrapped(&content)).unwrap();
        fs::write(&other, b"zstd").unwrap();
        let made = beside(&kernel).unwrap();
        assert_eq!(made, directory.join("vmlinux-6.1"));
        assert_eq!(fs::read(&made).unwrap(), content);
        fs::write(&kernel, b"gone").unwrap();
        assert_eq!(beside(&kernel).unwrap(), made);
        assert_eq!(beside(&other).unwrap(), other);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
    }
}
