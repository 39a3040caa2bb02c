//! The file systems, as mon_fsstatd tells them: those that lie on something.

use procfs::Root;
use procfs::parse::{lines, words};
use std::ffi::{CStr, CString};
use std::{fs, io};
use zmon::fsstatd::{APPLICATION, FileSystem, Numbers};
use zmon::monwriter::Series;

/// Types that are left out, and all that begin so, as the original does.
const LEFT_OUT: [&[u8]; 20] = [
    b"autofs",
    b"none",
    b"proc",
    b"subfs",
    b"nfsd",
    b"tmpfs",
    b"sysfs",
    b"pstore",
    b"cgroup",
    b"mqueue",
    b"devpts",
    b"debugfs",
    b"devtmpfs",
    b"configfs",
    b"selinuxfs",
    b"hugetlbfs",
    b"securityfs",
    b"rpc_pipefs",
    b"binfmt_misc",
    b"ignore",
];

/// Tells of the file systems, round after round.
#[derive(Debug)]
pub struct FileSystems {
    root: Root,
    series: Series,
}

impl FileSystems {
    /// Those that are mounted where /proc is below a root.
    pub fn new(root: Root) -> FileSystems {
        FileSystems { root, series: Series::default() }
    }

    /// A round: what is to be written. `room` is statvfs, which may wait for a server that does not
    /// answer; a file system of which it says nothing is left out.
    pub fn round(
        &mut self,
        seconds: u64,
        room: impl Fn(&CStr) -> io::Result<Numbers>,
        mut write: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let mounts = fs::read(self.root.join("proc/self/mounts"))?;
        let mut series = Series::default();
        for texts in lines(&mounts).filter_map(mount) {
            let [_, directory, kind] = &texts;
            if LEFT_OUT.iter().any(|left_out| kind.starts_with(left_out)) {
                continue;
            }
            let Ok(directory) = CString::new(directory.as_slice()) else { continue };
            let Ok(numbers) = room(&directory) else { continue };
            if numbers.blocks > 0 {
                write(&FileSystem { texts, numbers }.write(seconds, &mut series));
            }
        }
        series.ends(self.series, APPLICATION, 0).for_each(|end| write(&end));
        self.series = series;
        Ok(())
    }
}

/// What is mounted, where, and of which type.
fn mount(line: &[u8]) -> Option<[Vec<u8>; 3]> {
    let mut words = words(line);
    Some([unescaped(words.next()?), unescaped(words.next()?), unescaped(words.next()?)])
}

/// The kernel writes blanks and the like as `\040`.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut rest = word;
    let mut text = Vec::with_capacity(word.len());
    while let Some((&byte, after)) = rest.split_first() {
        let octal = after.first_chunk::<3>().filter(|_| byte == b'\\');
        let value = octal.and_then(|digits| {
            let digit = |byte: u8| matches!(byte, b'0'..=b'7').then(|| u32::from(byte - b'0'));
            let [a, b, c] = digits.map(digit);
            u8::try_from(a? * 64 + b? * 8 + c?).ok()
        });
        text.push(value.unwrap_or(byte));
        rest = if value.is_some() { &after[3..] } else { after };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_octal_numbers_of_three_digits() {
        let names = [
            ("/a\\040b", "/a b"),
            ("\\134", "\\"),
            ("/a\\04", "/a\\04"),
            ("/a\\09x", "/a\\09x"),
            ("\\777", "\\777"),
            ("\\", "\\"),
        ];
        for (text, name) in names {
            assert_eq!(unescaped(text.as_bytes()), name.as_bytes(), "{text}");
        }
        assert_eq!(mount(b"/dev/dasda1 /"), None);
    }
}
