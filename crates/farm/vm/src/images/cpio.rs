//! Writer of the archive that a kernel unpacks as its first file system ("newc" cpio).
//!
//! The archive depends only on its entries, which are sorted, numbered in this order and have no
//! time stamps. Equal guests therefore have equal images. The archive is not compressed, because
//! under emulation unpacking costs the guest far more than a few megabytes cost the host.

use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    mode: u32,
    /// Major and minor number of a device.
    device: (u32, u32),
    bytes: Vec<u8>,
}

const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;
const S_IFLNK: u32 = 0o120_000;
const S_IFCHR: u32 = 0o020_000;

/// An archive under construction.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    /// The order of the map puts each directory before its content.
    entries: BTreeMap<String, Entry>,
}

impl Archive {
    /// Creates an empty archive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory and the directories above it.
    pub fn directory(&mut self, path: &str) {
        self.insert(path, directory());
    }

    /// Adds a regular file and the directories above it. `mode` holds the permission bits.
    pub fn file(&mut self, path: &str, mode: u32, bytes: Vec<u8>) {
        self.insert(path, Entry { mode: S_IFREG | mode & 0o7777, bytes, ..Entry::default() });
    }

    /// Adds a symbolic link and the directories above it.
    pub fn symlink(&mut self, path: &str, target: &str) {
        self.insert(
            path,
            Entry { mode: S_IFLNK | 0o777, bytes: target.into(), ..Entry::default() },
        );
    }

    /// Adds a character device. The device is only a record in the archive, so no privilege is
    /// needed.
    pub fn char_device(&mut self, path: &str, mode: u32, major: u32, minor: u32) {
        let mode = S_IFCHR | mode & 0o7777;
        self.insert(path, Entry { mode, device: (major, minor), bytes: Vec::new() });
    }

    /// Adds an entry, which replaces an earlier entry with the same path. A caller's own files are
    /// therefore added last.
    fn insert(&mut self, path: &str, entry: Entry) {
        let path = path.trim_matches('/');
        for (index, _) in path.match_indices('/') {
            self.entries.entry(path[..index].to_owned()).or_insert_with(directory);
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// Returns the archive's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (number, (path, entry)) in (1..).zip(&self.entries) {
            write_record(&mut out, number, path, entry);
        }
        write_record(&mut out, 0, "TRAILER!!!", &Entry::default());
        out
    }
}

fn directory() -> Entry {
    Entry { mode: S_IFDIR | 0o755, ..Entry::default() }
}

/// Writes one record: a header with the name, then the data. Both parts are padded to a multiple of
/// 4 bytes.
///
/// ```text
///   070701 ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor
///          namesize check            (each 8 hexadecimal digits)
/// ```
fn write_record(out: &mut Vec<u8>, ino: u32, path: &str, entry: &Entry) {
    let Entry { mode, device: (major, minor), bytes } = entry;
    // Every file here is far smaller than 4 GiB, so these casts are safe.
    let (size, name_size) = (bytes.len() as u32, path.len() as u32 + 1);
    let fields = [ino, *mode, 0, 0, 1, 0, size, 0, 0, *major, *minor, name_size, 0];
    out.extend_from_slice(b"070701");
    for field in fields {
        out.extend_from_slice(format!("{field:08x}").as_bytes());
    }
    out.extend_from_slice(path.as_bytes());
    out.push(0);
    fill_to_four(out);
    out.extend_from_slice(bytes);
    fill_to_four(out);
}

fn fill_to_four(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Path, mode, device numbers, data.
    type Record = (String, u32, (u32, u32), Vec<u8>);

    fn read(mut bytes: &[u8]) -> Vec<Record> {
        let mut records = Vec::new();
        loop {
            assert_eq!(&bytes[..6], b"070701");
            let field = |index: usize| {
                let at = 6 + index * 8;
                u32::from_str_radix(std::str::from_utf8(&bytes[at..at + 8]).unwrap(), 16).unwrap()
            };
            let (mode, size, rdev) = (field(1), field(6) as usize, (field(9), field(10)));
            let name_end = 110 + field(11) as usize;
            let name = String::from_utf8(bytes[110..name_end - 1].to_vec()).unwrap();
            assert_eq!(bytes[name_end - 1], 0);
            let data_start = name_end.next_multiple_of(4);
            let data = bytes[data_start..data_start + size].to_vec();
            if name == "TRAILER!!!" {
                assert_eq!(bytes.len(), data_start);
                return records;
            }
            records.push((name, mode, rdev, data));
            bytes = &bytes[(data_start + size).next_multiple_of(4)..];
        }
    }

    #[test]
    fn parents_come_first_and_everything_comes_back() {
        let mut archive = Archive::new();
        archive.file("/sbin/deep/tool", 0o755, b"12345".to_vec());
        archive.char_device("dev/console", 0o600, 5, 1);
        archive.symlink("/bin/sh", "busybox");
        archive.directory("/proc/");
        let expected = [
            ("bin", 0o040_755, (0, 0), ""),
            ("bin/sh", 0o120_777, (0, 0), "busybox"),
            ("dev", 0o040_755, (0, 0), ""),
            ("dev/console", 0o020_600, (5, 1), ""),
            ("proc", 0o040_755, (0, 0), ""),
            ("sbin", 0o040_755, (0, 0), ""),
            ("sbin/deep", 0o040_755, (0, 0), ""),
            ("sbin/deep/tool", 0o100_755, (0, 0), "12345"),
        ];
        let expected =
            expected.map(|(path, mode, rdev, data)| (path.to_owned(), mode, rdev, data.into()));
        assert_eq!(read(&archive.to_bytes()), expected);
    }

    #[test]
    fn the_bytes_do_not_depend_on_the_order_of_adding() {
        let mut one = Archive::new();
        one.file("a", 0o644, b"x".to_vec());
        one.symlink("b", "a");
        let mut other = Archive::new();
        other.symlink("b", "a");
        other.file("a", 0o644, b"old".to_vec());
        other.file("a", 0o644, b"x".to_vec());
        assert_eq!(one.to_bytes(), other.to_bytes());
    }
}
