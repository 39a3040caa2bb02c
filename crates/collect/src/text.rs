//! Kernel files that stay open, and the few forms in which the kernel writes numbers.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The longest text that is read: /proc/stat of a machine with some thousand CPUs.
const WHOLE_MAX: usize = 1 << 20;
/// What is asked for at once. The kernel writes most of the files read here in one piece.
const PIECE: usize = 16 << 10;

/// Room for texts, used again for each.
#[derive(Debug, Default)]
pub(crate) struct Buffer(Vec<u8>);

/// A file that stays open. One that is not there shows nothing, ever.
#[derive(Debug, Default)]
pub(crate) struct Kept(Option<File>);

impl Kept {
    pub(crate) fn open(path: &Path) -> Kept {
        Kept(File::open(path).ok())
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// What one system call gives: all of a short file.
    pub(crate) fn once<'b>(&self, buffer: &'b mut Buffer) -> Option<&'b [u8]> {
        let file = self.0.as_ref()?;
        let text = &mut buffer.0;
        if text.len() < PIECE {
            text.resize(PIECE, 0);
        }
        let count = file.read_at(text, 0).ok()?;
        text.get(..count)
    }

    /// All of a file that the kernel may give in pieces; nothing of one that has no end.
    pub(crate) fn whole<'b>(&self, buffer: &'b mut Buffer) -> Option<&'b [u8]> {
        let file = self.0.as_ref()?;
        let text = &mut buffer.0;
        let mut length = 0;
        loop {
            if text.len() < length + PIECE {
                text.resize(length + PIECE, 0);
            }
            match file.read_at(text.get_mut(length..)?, length as u64).ok()? {
                0 => return text.get(..length),
                count => length += count,
            }
            if length > WHOLE_MAX {
                return None;
            }
        }
    }

    /// The number that is all that stands in the file.
    pub(crate) fn number(&self, buffer: &mut Buffer) -> Option<u64> {
        number(self.once(buffer)?.trim_ascii())
    }
}

/// A whole number, and nothing beside it.
pub(crate) fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

pub(crate) fn lines(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
}

pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t' | b'\n')).filter(|word| !word.is_empty())
}

/// The numbers that a text begins with, as many as are wanted.
pub(crate) fn numbers<const N: usize>(text: &[u8]) -> Option<[u64; N]> {
    let mut words = words(text);
    let mut all = [0; N];
    for place in &mut all {
        *place = number(words.next()?)?;
    }
    Some(all)
}

/// The name at the start of a line, without its colon, and the number behind it.
pub(crate) fn named(line: &[u8]) -> Option<(&[u8], u64)> {
    let mut words = words(line);
    let name = words.next()?;
    Some((name.strip_suffix(b":").unwrap_or(name), number(words.next()?)?))
}

/// The number of the line of this name.
pub(crate) fn value_of(text: &[u8], name: &str) -> Option<u64> {
    lines(text).filter_map(named).find(|(found, _)| *found == name.as_bytes()).map(|(_, n)| n)
}

/// The time that `kind` (`some`, `full`) of a pressure file has come to, in nanoseconds.
pub(crate) fn pressure_ns(text: &[u8], kind: &str) -> Option<u64> {
    let mut all = lines(text).map(words);
    let mut line = all.find_map(|mut words| (words.next()? == kind.as_bytes()).then_some(words))?;
    let total = line.find_map(|word| word.strip_prefix(b"total="))?;
    number(total)?.checked_mul(1000)
}

/// The fields of a /proc/PID/stat behind the name, which is the process's own to choose and may
/// hold blanks and brackets. The first of them is number 3.
pub(crate) fn stat_fields(text: &[u8]) -> Option<impl Iterator<Item = (usize, &[u8])>> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    Some((3..).zip(words(text.get(end + 1..)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn a_number_is_digits_only_and_fits() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for text in ["18446744073709551616", "-1", "1.5", "", "1 "] {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
        assert_eq!(numbers::<2>(b"1 2 3\n"), Some([1, 2]));
        assert_eq!(numbers::<3>(b"1 2\n"), None);
    }

    #[test]
    fn lines_are_found_by_their_whole_name() {
        let text = b"MemTotal:  10 kB\nMemFree:\t7 kB\nallocstall 4\n";
        assert_eq!(value_of(text, "MemFree"), Some(7));
        assert_eq!(value_of(text, "Mem"), None);
        assert_eq!(value_of(text, "allocstall"), Some(4));
    }

    #[test]
    fn pressure_is_a_total_of_one_kind() {
        let text = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=1500\nfull avg10=0.00 total=9\n";
        assert_eq!(pressure_ns(text, "some"), Some(1_500_000));
        assert_eq!(pressure_ns(text, "full"), Some(9_000));
        assert_eq!(pressure_ns(b"some total=x\n", "some"), None);
    }

    #[test]
    fn a_file_that_is_longer_than_a_piece_is_read_whole_and_an_endless_one_not() {
        let tree = Tree::new();
        let long = "x".repeat(3 * PIECE + 5);
        tree.file("long", &long);
        let mut buffer = Buffer::default();
        let kept = Kept::open(&tree.path().join("long"));
        assert_eq!(kept.whole(&mut buffer).map(<[u8]>::len), Some(long.len()));
        assert!(Kept::open(Path::new("/dev/zero")).whole(&mut buffer).is_none());
        assert!(Kept::default().once(&mut buffer).is_none());
    }
}
