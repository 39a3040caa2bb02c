//! Open files of a guest's process: disk images, and tap devices of its network.
//!
//! ```text
//!   /proc/PID/fd ─┬─► regular files ─► Images, shared by all guests ─► size, cached bytes
//!                 └─► /dev/net/tun ─► fdinfo: its name ─► /sys/class/net/NAME/statistics
//! ```
//!
//! Images are not read, and no image stays open. An open file would keep its file system busy.

use model::{GuestField, Row};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::sys;
use procfs::parse::lines;
use procfs::{Buffer, Kept};

/// Interval between scans of a process's descriptors. Each descriptor is a link to read.
const LIST_MS: u64 = 60_000;
/// Maximum number of descriptors scanned. An emulator opens its disks early.
const FDS_MAX: usize = 1024;
/// Maximum number of images, and of tap devices, counted for a guest.
const IMAGES_MAX: usize = 64;
const TAPS_MAX: usize = 8;
/// Minimum size of an image. Smaller files are firmware, logs or locks.
const IMAGE_BYTES_MIN: u64 = 1 << 20;
/// Unit of a file's allocated blocks, independent of the file system.
const BLOCK_BYTES: u64 = 512;
/// Maximum number of files for which cached pages are counted in one round. The kernel visits every
/// cached page, which takes milliseconds for a large file.
const COUNTED_A_ROUND: usize = 4;
/// Time after which a file is forgotten if no guest has it open. Even a sleeping guest is read more
/// often.
const FORGET_MS: u64 = 3 * LIST_MS;
/// Prefixes of link targets that are no image files.
const MEMORY: [&str; 3] = ["/memfd:", "/dev/", "anon_inode:"];
/// Link target of a tap device's descriptor.
const TUN: &str = "/dev/net/tun";
/// Maximum length of an interface's name in the kernel.
const INTERFACE_MAX: usize = 15;

/// Identity of a file: device and inode.
type Key = (u64, u64);

#[derive(Clone, Copy, Debug)]
struct Image {
    bytes: u64,
    cached: Option<u64>,
    counted_ms: Option<u64>,
    seen_ms: u64,
}

/// Image files of all guests. Many guests may share a base image, which is counted once.
#[derive(Debug, Default)]
pub(crate) struct Images {
    all: BTreeMap<Key, Image>,
    left: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Cached bytes; `None` until the cached bytes of all files are known.
    pub(crate) cached: Option<u64>,
}

impl Images {
    /// Begins a round, and forgets files that no guest has had open recently.
    pub(crate) fn begin(&mut self, now_ms: u64) {
        self.left = COUNTED_A_ROUND;
        self.all.retain(|_, image| now_ms.saturating_sub(image.seen_ms) < FORGET_MS);
    }

    fn sees(&mut self, key: Key, bytes: u64, now_ms: u64) {
        let new = Image { bytes, cached: None, counted_ms: None, seen_ms: now_ms };
        let image = self.all.entry(key).or_insert(new);
        (image.bytes, image.seen_ms) = (bytes, now_ms);
    }

    /// Counts the cached bytes of a file, if the last count is old and the round's limit is not
    /// reached.
    fn count(&mut self, key: Key, path: &Path, page_bytes: u64, now_ms: u64) {
        let Some(image) = self.all.get_mut(&key) else { return };
        let is_due = image.counted_ms.is_none_or(|at| now_ms.saturating_sub(at) >= LIST_MS);
        if self.left == 0 || !is_due {
            return;
        }
        self.left -= 1;
        image.counted_ms = Some(now_ms);
        let is_it =
            |file: &File| file.metadata().is_ok_and(|found| (found.dev(), found.ino()) == key);
        let file = File::open(path).ok().filter(is_it);
        let pages = file.and_then(|file| sys::cached_pages(&file));
        image.cached = pages.and_then(|pages| pages.checked_mul(page_bytes));
    }

    fn sum<'a>(images: impl Iterator<Item = &'a Image>) -> Held {
        let none = Held { cached: Some(0), ..Held::default() };
        images.fold(none, |sum, image| Held {
            files: sum.files + 1,
            bytes: sum.bytes.saturating_add(image.bytes),
            cached: sum.cached.zip(image.cached).map(|(a, b)| a.saturating_add(b)),
        })
    }

    /// Returns the sums over all guests, with each file once; `None` if there is no file.
    pub(crate) fn held(&self) -> Option<Held> {
        (!self.all.is_empty()).then(|| Images::sum(self.all.values()))
    }
}

/// Statistics of a tap device. The guest receives the packets that the host sends.
const TAP_FILES: [(&str, GuestField); 4] = [
    ("tx_packets", GuestField::NetInPackets),
    ("tx_bytes", GuestField::NetInBytes),
    ("rx_packets", GuestField::NetOutPackets),
    ("rx_bytes", GuestField::NetOutBytes),
];

#[derive(Debug)]
struct Tap {
    name: String,
    files: [Kept; 4],
}

#[derive(Debug)]
pub(crate) struct Devices {
    root: PathBuf,
    pid: u32,
    page_bytes: u64,
    listed_ms: Option<u64>,
    /// Images; `None` if the descriptors are not readable.
    images: Option<Vec<(Key, PathBuf)>>,
    taps: Vec<Tap>,
}

impl Devices {
    pub(crate) fn new(root: &Path, pid: u32, page_bytes: u64) -> Devices {
        let root = root.to_owned();
        Devices { root, pid, page_bytes, listed_ms: None, images: None, taps: Vec::new() }
    }

    pub(crate) fn read(&mut self, images: &mut Images, now_ms: u64, buffer: &mut Buffer) {
        if self.listed_ms.is_none_or(|at| now_ms.saturating_sub(at) >= LIST_MS) {
            self.listed_ms = Some(now_ms);
            self.list(images, now_ms, buffer);
        }
        for (key, path) in self.images.iter().flatten() {
            images.count(*key, path, self.page_bytes, now_ms);
        }
    }

    fn list(&mut self, images: &mut Images, now_ms: u64, buffer: &mut Buffer) {
        let dir = self.root.join(format!("proc/{}", self.pid));
        self.images = None;
        let Ok(entries) = std::fs::read_dir(dir.join("fd")) else { return };
        let (mut found, mut taps) = (Vec::new(), Vec::new());
        for entry in entries.flatten().take(FDS_MAX) {
            let path = entry.path();
            let Ok(link) = std::fs::read_link(&path) else { continue };
            if link.as_os_str() == TUN && taps.len() < TAPS_MAX {
                let info = Kept::open(&dir.join("fdinfo").join(entry.file_name()));
                taps.extend(info.once(buffer).and_then(interface_of));
            }
            let is_file = link.is_absolute() && !MEMORY.iter().any(|dir| starts(&link, dir));
            if !is_file || found.len() >= IMAGES_MAX {
                continue;
            }
            let Ok(file) = std::fs::metadata(&path) else { continue };
            let key = (file.dev(), file.ino());
            let is_new = !found.iter().any(|(known, _)| *known == key);
            if file.is_file() && file.len() >= IMAGE_BYTES_MIN && is_new {
                images.sees(key, file.blocks().saturating_mul(BLOCK_BYTES), now_ms);
                found.push((key, path));
            }
        }
        self.images = Some(found);
        taps.sort_unstable();
        taps.dedup();
        if self.taps.iter().map(|tap| &tap.name).ne(&taps) {
            let open = |name: String| {
                let dir = self.root.join("sys/class/net").join(&name).join("statistics");
                Tap { name, files: TAP_FILES.map(|(file, _)| Kept::open(&dir.join(file))) }
            };
            self.taps = taps.into_iter().map(open).collect();
        }
    }

    /// Returns the sums over the guest's images; `None` if its descriptors are not readable.
    pub(crate) fn held(&self, images: &Images) -> Option<Held> {
        let keys = self.images.as_ref()?.iter();
        Some(Images::sum(keys.filter_map(|(key, _)| images.all.get(key))))
    }

    /// Fills in the counters of tap devices. The counters are missing if there is no device, or if
    /// a device is not readable.
    pub(crate) fn network(&self, row: &mut Row<GuestField>, buffer: &mut Buffer) {
        for (at, (_, field)) in TAP_FILES.iter().enumerate() {
            let values = self.taps.iter().map(|tap| tap.files[at].number(buffer));
            let sum = values.reduce(|a, b| a.zip(b).map(|(a, b)| a.saturating_add(b)));
            row.set(*field, sum.flatten());
        }
    }

    /// Returns the number of files that stay open.
    pub(crate) fn files(&self) -> usize {
        self.taps.len() * TAP_FILES.len()
    }
}

fn starts(link: &Path, with: &str) -> bool {
    link.as_os_str().as_encoded_bytes().starts_with(with.as_bytes())
}

/// Returns the name of a tap device from its descriptor's fdinfo. The name is checked, because it
/// becomes part of a path.
fn interface_of(text: &[u8]) -> Option<String> {
    let name = lines(text).find_map(|line| line.strip_prefix(b"iff:"))?.trim_ascii();
    let name = std::str::from_utf8(name).ok()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
    let is_name = (1..=INTERFACE_MAX).contains(&name.len()) && !name.starts_with('.');
    (is_name && name.chars().all(is_plain)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    const PAGE: u64 = 4096;

    #[test]
    fn images_are_counted_once_however_many_have_them_open() {
        let tree = Tree::new();
        tree.file("images/base", &"x".repeat(2 << 20));
        tree.file("images/log", "short");
        let base = tree.path().join("images/base");
        for (pid, fd) in [(7, 3), (7, 4), (8, 3)] {
            tree.link(&format!("proc/{pid}/fd/{fd}"), &base.to_string_lossy());
        }
        tree.link("proc/7/fd/5", &tree.path().join("images/log").to_string_lossy());
        tree.link("proc/7/fd/6", "/memfd:ram (deleted)");
        let (mut images, mut buffer) = (Images::default(), Buffer::default());
        assert_eq!(images.held(), None);
        let mut guests = [7, 8, 9].map(|pid| Devices::new(tree.path(), pid, PAGE));
        let mut round = |images: &mut Images, now_ms| {
            images.begin(now_ms);
            guests.iter_mut().for_each(|guest| guest.read(images, now_ms, &mut buffer));
            guests.each_ref().map(|guest| guest.held(images))
        };
        let [one, two, gone] = round(&mut images, 1000);
        assert_eq!((one, gone), (two, None));
        let held = one.unwrap();
        assert_eq!((held.files, held.bytes >= 2 << 20), (1, true));
        assert_eq!(images.held(), one);
        // Kernels before 6.5 do not report the cache. Later kernels report that the data just
        // written is in the cache.
        assert!(held.cached.is_none_or(|bytes| bytes == 2 << 20), "{held:?}");
        tree.remove("proc/7");
        tree.remove("proc/8");
        assert_eq!(round(&mut images, 1000 + FORGET_MS), [None, None, None]);
        assert_eq!(images.held(), None);
    }

    #[test]
    fn few_files_are_counted_in_a_round_and_all_in_time() {
        let tree = Tree::new();
        let count = COUNTED_A_ROUND + 1;
        for file in 0..count {
            tree.file(&format!("images/{file}"), &"x".repeat(1 << 20));
            let path = tree.path().join(format!("images/{file}"));
            tree.link(&format!("proc/7/fd/{file}"), &path.to_string_lossy());
        }
        let (mut images, mut buffer) = (Images::default(), Buffer::default());
        let mut guest = Devices::new(tree.path(), 7, PAGE);
        for (now_ms, expected) in [(0, COUNTED_A_ROUND), (1000, count)] {
            images.begin(now_ms);
            guest.read(&mut images, now_ms, &mut buffer);
            let counted = images.all.values().filter(|image| image.counted_ms.is_some());
            assert_eq!(counted.count(), expected);
        }
        let held = guest.held(&images).unwrap();
        assert_eq!(held.files, count as u64);
    }

    #[test]
    fn tap_devices_are_found_by_their_names() {
        let tree = Tree::new();
        for (fd, text) in [(3, "pos:\t0\niff:\tvnet7\n"), (4, "iff:\tvnet7\n"), (5, "iff:\t../x\n")]
        {
            tree.link(&format!("proc/7/fd/{fd}"), TUN);
            tree.file(&format!("proc/7/fdinfo/{fd}"), text);
        }
        for ((file, _), value) in TAP_FILES.iter().zip([10, 1000, 20, 2000]) {
            tree.file(&format!("sys/class/net/vnet7/statistics/{file}"), &format!("{value}\n"));
        }
        let (mut images, mut buffer) = (Images::default(), Buffer::default());
        let mut guest = Devices::new(tree.path(), 7, PAGE);
        let network = |guest: &Devices| {
            let mut row = Row::default();
            guest.network(&mut row, &mut Buffer::default());
            row.known().map(|(_, value)| value).collect::<Vec<_>>()
        };
        assert!(network(&guest).is_empty());
        guest.read(&mut images, 0, &mut buffer);
        assert_eq!(network(&guest), [10, 1000, 20, 2000]);
        assert_eq!(guest.files(), 4);
        tree.remove("sys/class/net/vnet7/statistics/rx_bytes");
        tree.file("proc/7/fdinfo/3", "iff:\tvnet8\n");
        guest.read(&mut images, LIST_MS, &mut buffer);
        assert!(network(&guest).is_empty(), "vnet8 has no figures");
    }
}
