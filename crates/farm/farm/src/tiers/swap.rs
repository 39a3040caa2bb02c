//! Swap files and swap devices of our own.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base::Bytes;
use procfs::parse::swaps::SwapArea;
use rustix::fs::{FallocateFlags, fallocate};

use super::fault::{SWAP, TierContext, refused};
use super::machine::{Machine, names};
use super::record::Record;
use super::step::{PREFIX, SWAP_SUFFIX, Undo};
use crate::Error;

/// Page size of x86-64 and s390x.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Minimum size of swap, in bytes. The kernel refuses fewer than ten pages, and a swap area below
/// this minimum would be useless.
const SWAP_BYTES_MIN: u64 = 1 << 20;

/// Returns the directory of swap files, as the path that the kernel will show. A missing directory
/// is created.
pub(super) fn directory(dir: &Path) -> Result<PathBuf, Error> {
    fs::create_dir_all(dir)
        .and_then(|()| dir.canonicalize())
        .tier(SWAP, format!("cannot use {}", dir.display()))
}

/// Makes a swap file without holes, as the kernel requires. The file is locked, so that it does not
/// look abandoned.
pub(super) fn make(record: &mut Record, path: &Path, size: Bytes) -> Result<File, Error> {
    record.add(Undo::SwapFile { path: path.to_path_buf() })?;
    let make = || -> io::Result<File> {
        let mut options = OpenOptions::new();
        // The file will contain guest memory, so other users must not read it.
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(path)?;
        file.try_lock()?;
        fallocate(&file, FallocateFlags::empty(), 0, size.0)?;
        Ok(file)
    };
    let made = make();
    let path = path.display();
    let what = match &made {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            format!("the file system of {path} does not support swap files: use ext4 or xfs")
        }
        _ => format!("cannot make {path} of {} bytes", size.0),
    };
    made.tier(SWAP, what)
}

/// Removes abandoned swap files that are not in use. The files survive a reboot, but their records
/// do not.
pub(super) fn remove_left(machine: &Machine, dir: &Path) {
    let Ok(swaps) = machine.swaps() else { return };
    for name in names(dir, PREFIX).into_iter().filter(|name| name.ends_with(SWAP_SUFFIX)) {
        let path = dir.join(name);
        let in_use = swaps.iter().any(|swap| Path::new(&swap.name) == path);
        let Ok(file) = File::open(&path) else { continue };
        if !in_use && file.try_lock().is_ok() {
            // A file that cannot be removed now is removed by the next start.
            let _ = fs::remove_file(&path);
        }
    }
}

/// Formats a file or device as swap, and turns swap on.
pub(super) fn on(
    machine: &Machine,
    record: &mut Record,
    tier: &'static str,
    path: &Path,
    size: Bytes,
    priority: u16,
) -> Result<(), Error> {
    if size.0 < SWAP_BYTES_MIN {
        return Err(refused(tier, format!("{} bytes are too few: use at least 1 MiB", size.0)));
    }
    let header = header(size.0 / PAGE_BYTES);
    OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|file| file.write_all_at(&header, 0).and_then(|()| file.sync_data()))
        .tier(tier, format!("cannot write to {}", path.display()))?;
    record.add(Undo::Swap { path: path.to_path_buf(), bytes: size.0 })?;
    let swapped = machine.calls.swap_on(path, priority);
    let hint = match &swapped {
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            "; the file system of this path, or of a link's target, does not support swap files \
             (ext4 and xfs do)"
        }
        _ => "",
    };
    swapped.tier(tier, format!("cannot swap to {}{hint}", path.display()))
}

/// Turns swap off and reads everything back, if this is the swap area that we turned on.
pub(super) fn off(machine: &Machine, path: &Path, bytes: u64) -> Result<(), Error> {
    let swaps = machine.swaps().tier(SWAP, "cannot read /proc/swaps")?;
    if !swaps.iter().any(|swap| is_ours(swap, path, bytes)) {
        return Ok(());
    }
    let what = format!(
        "cannot bring back the memory that was swapped to {}: end the guests first, or free memory \
         for them",
        path.display()
    );
    machine.calls.swap_off(path).tier(SWAP, what)
}

/// Compares path and size. The kernel shows the size without the header's page.
fn is_ours(swap: &SwapArea, path: &Path, bytes: u64) -> bool {
    let size_kib = (bytes / PAGE_BYTES).saturating_sub(1) * (PAGE_BYTES / 1024);
    Path::new(&swap.name) == path && swap.size_kib == size_kib
}

/// Returns the first page of a swap device, as the kernel reads it (`union swap_header`). From byte
/// 1024 on it has the version, the number of the last page, the count of bad pages, a UUID and a
/// label. The page ends with the magic.
fn header(pages: u64) -> [u8; PAGE_BYTES as usize] {
    const MAGIC: &[u8; 10] = b"SWAPSPACE2";
    let mut page = [0; PAGE_BYTES as usize];
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    let last = u32::try_from(pages.saturating_sub(1)).unwrap_or(u32::MAX);
    put(1024, &1_u32.to_ne_bytes());
    put(1028, &last.to_ne_bytes());
    put(1052, b"pinhead");
    put(PAGE_BYTES as usize - MAGIC.len(), MAGIC);
    page
}
