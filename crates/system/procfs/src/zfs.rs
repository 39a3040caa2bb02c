//! ZFS's cache, which the kernel counts as memory of programs.

use std::path::Path;

use base::Bytes;

use crate::parse::{lines, number, words};
use crate::{Buffer, Kept};

/// The file with the counters of ZFS's cache, on hosts with ZFS.
const ARCSTATS: &str = "proc/spl/kstat/zfs/arcstats";

/// ZFS's cache (its ARC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZfsCache {
    /// The whole cache.
    pub size: Bytes,
    /// The part that shrinks when programs need memory: all above the cache's minimum size.
    pub gives: Bytes,
}

impl ZfsCache {
    /// Reads the sizes; `None` on a host without ZFS.
    pub fn read(root: &Path, buffer: &mut Buffer) -> Option<ZfsCache> {
        let text = Kept::open(&root.join(ARCSTATS));
        let text = text.whole(buffer)?;
        let size = value_of(text, b"size").map(Bytes)?;
        // If the minimum is unknown, the cache is not assumed to shrink.
        let least = value_of(text, b"c_min").map_or(size, Bytes);
        Some(ZfsCache { size, gives: size.less(least) })
    }
}

/// Returns the value of a name. Each line has a name, the number of a type, and a value.
fn value_of(text: &[u8], name: &[u8]) -> Option<u64> {
    lines(text).find_map(|line| {
        let mut words = words(line);
        let is_it = words.next() == Some(name);
        number(words.nth(1)?).filter(|_| is_it)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeKernel;

    #[test]
    fn report_h08_part_of_the_cache_above_its_least_size_gives_way() {
        let kernel = FakeKernel::new(1, 1);
        let read = |text: &str| {
            kernel.write(ARCSTATS, text);
            ZfsCache::read(kernel.root().path(), &mut Buffer::default())
        };
        let head = "13 1 0x01 147 39984 5023 99\nname                            type data\n";
        let size = "size                            4    8589934592\n";
        let least = "c_min                           4    1073741824\n";
        let other = "compressed_size                 4    7\n";
        let (all, gives) = (Bytes::mib(8192), Bytes::mib(7168));
        assert_eq!(
            read(&format!("{head}{other}{least}{size}")),
            Some(ZfsCache { size: all, gives })
        );
        let stays = ZfsCache { size: all, gives: Bytes::ZERO };
        assert_eq!(read(&format!("{head}{size}")), Some(stays));
        assert_eq!(read(head), None);
        assert_eq!(read("size 4 -1\nsize\nsize 4"), None);
    }
}
