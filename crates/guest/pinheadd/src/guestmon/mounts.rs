//! File systems as mon_fsstatd writes them, restricted to file systems on a device.

use procfs::Root;
use procfs::parse::{lines, unescaped, words};
use std::ffi::{CStr, CString};
use std::{fs, io};
use zmon::fsstatd::{APPLICATION, FileSystem, Numbers};
use zmon::monwriter::Series;

/// Prefixes of types that are left out, as in mon_fsstatd.
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

/// Writer of file systems, round by round.
#[derive(Debug)]
pub struct FileSystems {
    root: Root,
    series: Series,
}

impl FileSystems {
    /// Creates a writer of the file systems mounted below a root.
    pub fn new(root: Root) -> FileSystems {
        FileSystems { root, series: Series::default() }
    }

    /// Writes one round. `room` calls statvfs, which may block on an unresponsive server. A file
    /// system for which `room` fails is left out.
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

/// Returns device, directory and type from a line of /proc/self/mounts.
pub fn mount(line: &[u8]) -> Option<[Vec<u8>; 3]> {
    let mut words = words(line);
    Some([unescaped(words.next()?), unescaped(words.next()?), unescaped(words.next()?)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_ends_before_its_type_is_no_mount() {
        let found = mount(b"/dev/dasda1 /a\\040b ext4 rw 0 0").map(|[_, directory, _]| directory);
        assert_eq!(found.as_deref(), Some(&b"/a b"[..]));
        assert_eq!(mount(b"/dev/dasda1 /"), None);
    }
}
