//! Files that are a table of names and numbers, one a line: /proc/meminfo
//! (`MemFree:   33882 kB`) and /proc/vmstat (`pgpgin 584546`).

use super::{skip_blanks, unsigned};

/// The separator behind the name in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A colon, as in /proc/meminfo.
    Colon,
    /// A blank, as in /proc/vmstat.
    Blank,
}

impl Style {
    fn separator(self) -> u8 {
        match self {
            Style::Colon => b':',
            Style::Blank => b' ',
        }
    }

    /// Returns the name in a line; `None` if the line has no valid name.
    pub fn name(self, line: &[u8]) -> Option<&str> {
        let end = line.iter().position(|b| *b == self.separator())?;
        let name = std::str::from_utf8(&line[..end]).ok()?;
        let printable = !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic());
        printable.then_some(name)
    }

    /// Returns the bytes behind `name` in the line at the start of `bytes`, if that line has that
    /// name.
    #[inline]
    pub fn after<'a>(self, bytes: &'a [u8], name: &str) -> Option<&'a [u8]> {
        let (separator, rest) = bytes.strip_prefix(name.as_bytes())?.split_first()?;
        (*separator == self.separator()).then_some(rest)
    }
}

/// Parses the number at the start of the bytes behind a name. Another byte must follow the number,
/// because a number at the end of the bytes may continue in the next read. `at_end` means that
/// there is no next read.
#[inline]
pub fn value(rest: &[u8], at_end: bool) -> Option<u64> {
    let (value, after) = unsigned(skip_blanks(rest))?;
    (at_end || !after.is_empty()).then_some(value)
}

/// Returns the offset just after the `count`-th newline at or after `from`. `None` if there are
/// fewer newlines.
///
/// The search takes eight bytes at a time, because a byte-wise search of a whole /proc/vmstat costs
/// more than all other parsing together.
pub fn skip_lines(bytes: &[u8], from: usize, count: u32) -> Option<usize> {
    const LOW7: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    const NEWLINES: u64 = 0x0101_0101_0101_0101 * b'\n' as u64;
    if count == 0 {
        return (from <= bytes.len()).then_some(from);
    }
    let mut left = count;
    let mut at = from;
    let (words, tail) = bytes.get(from..)?.as_chunks::<8>();
    for word in words {
        // Zero bytes of `x` are newlines of the word. The sum carries into the top bit of each byte
        // with nonzero low bits, and never out of the byte. Exactly the zero bytes are therefore
        // marked.
        let x = u64::from_le_bytes(*word) ^ NEWLINES;
        let mut marks = !(((x & LOW7) + LOW7) | x | LOW7);
        let found = marks.count_ones();
        if found < left {
            left -= found;
            at += 8;
            continue;
        }
        for _ in 1..left {
            marks &= marks - 1;
        }
        return Some(at + marks.trailing_zeros() as usize / 8 + 1);
    }
    for byte in tail {
        at += 1;
        if *byte == b'\n' {
            left -= 1;
            if left == 0 {
                return Some(at);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_where_the_file_says() {
        assert_eq!(Style::Colon.name(b"Active(anon):   157286 kB"), Some("Active(anon)"));
        assert_eq!(Style::Blank.name(b"pgpgin 584546"), Some("pgpgin"));
        for line in [&b""[..], b"x", b" 7", b": 7", b"\xff: 7", b"a b: 7", b"\x1b[2J: 7"] {
            assert_eq!(Style::Colon.name(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_name_is_compared_whole() {
        assert_eq!(Style::Blank.after(b"pgpgin 58", "pgpgin"), Some(&b"58"[..]));
        assert_eq!(Style::Blank.after(b"pgpginx 58", "pgpgin"), None);
        assert_eq!(Style::Colon.after(b"pgpgin 58", "pgpgin"), None);
        assert_eq!(Style::Blank.after(b"pgpgin", "pgpgin"), None);
    }

    #[test]
    fn number_at_the_end_of_bytes_counts_only_at_the_end_of_file() {
        assert_eq!(value(b"   33882 kB\n", false), Some(33882));
        assert_eq!(value(b"33882\n", false), Some(33882));
        assert_eq!(value(b"338", false), None);
        assert_eq!(value(b"338", true), Some(338));
        assert_eq!(value(b" kB\n", true), None);
        assert_eq!(value(b"99999999999999999999 kB", true), Some(u64::MAX));
    }

    #[test]
    fn lines_are_skipped_as_a_plain_search_skips_them() {
        // The texts have 18 bytes, with newlines in each pattern of 12 bits. Each text is searched
        // from all offsets. Every alignment of a newline to the words therefore occurs.
        for pattern in 0_u32..1 << 12 {
            let text: Vec<u8> = (0..18)
                .map(|i| if pattern >> (i % 12) & 1 == 1 { b'\n' } else { b'\n' ^ (1 << (i % 8)) })
                .collect();
            for from in 0..=text.len() {
                let mut ends = (from..text.len()).filter(|i| text[*i] == b'\n').map(|i| i + 1);
                assert_eq!(skip_lines(&text, from, 0), Some(from));
                for count in 1..5 {
                    assert_eq!(skip_lines(&text, from, count), ends.next(), "{text:?} {from}");
                }
            }
        }
        assert_eq!(skip_lines(b"a\n", 3, 1), None);
        assert_eq!(skip_lines(b"a\n", 3, 0), None);
    }
}
