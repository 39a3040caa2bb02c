//! Parsers from bytes to values. They open no file, keep no state and never panic, for any bytes:
//! the fuzzer calls these functions.

pub mod cgroup;
pub mod counts;
pub mod cpulist;
pub mod loadavg;
pub mod pressure;
pub mod schedstat;
pub mod stat;
pub mod swaps;
pub mod table;
pub mod task;
pub mod tcp;

/// Bytes that are not in the kernel's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Line {line}: {what}")]
pub struct Malformed {
    /// The line, counted from 1.
    pub line: usize,
    /// The error in the line.
    pub what: &'static str,
}

/// Returns the lines of a text, without their newlines. The last line may lack a newline.
pub fn lines(bytes: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let is_there = !bytes.is_empty();
    is_there.then(|| body.split(|b| *b == b'\n')).into_iter().flatten()
}

/// Returns the words of a line, or of a text.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t' | b'\n')).filter(|word| !word.is_empty())
}

/// Parses a word that is exactly one whole number, which must fit the type.
pub fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// Returns the first `N` numbers at the start of a text.
pub fn numbers<const N: usize>(text: &[u8]) -> Option<[u64; N]> {
    let mut words = words(text);
    let mut all = [0; N];
    for place in &mut all {
        *place = number(words.next()?)?;
    }
    Some(all)
}

/// Returns the name at the start of a line, without its colon, and the number after the name.
pub fn named(line: &[u8]) -> Option<(&[u8], u64)> {
    let mut words = words(line);
    let name = words.next()?;
    Some((name.strip_suffix(b":").unwrap_or(name), number(words.next()?)?))
}

/// Returns the number in the line with this name.
pub fn value_of(text: &[u8], name: &str) -> Option<u64> {
    lines(text).filter_map(named).find(|(found, _)| *found == name.as_bytes()).map(|(_, n)| n)
}

/// Decodes a path as the kernel writes it, with blanks and the like as three octal digits:
/// `a\040b`.
pub fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, behind)) = rest.split_first() {
        let code = behind.get(..3).filter(|_| *first == b'\\').and_then(octal);
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { behind.get(3..).unwrap_or_default() } else { behind };
    }
    bytes
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

/// Returns `bytes` without leading blanks and tabs.
#[inline]
pub fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let blanks = bytes.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
    &bytes[blanks..]
}

/// Parses the digits at the start of `bytes`, and returns the number and the rest. A number too
/// large for a `u64` saturates. `None` without a digit.
#[inline]
pub fn unsigned(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value: u64 = 0;
    let mut digits = 0;
    for byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.saturating_mul(10).saturating_add(u64::from(digit));
        digits += 1;
    }
    (digits > 0).then(|| (value, &bytes[digits..]))
}

/// Parses a number with an optional decimal fraction at the start of `bytes`, and returns the
/// number and the rest. Only the first nine digits of the fraction are read; the kernel prints two
/// digits.
///
/// Both parts form one integer, which is divided once by a power of ten. Below 2^53 the result is
/// the number nearest to the text, as with `strtod`.
pub fn decimal(bytes: &[u8]) -> Option<(f64, &[u8])> {
    let (whole, rest) = unsigned(bytes)?;
    let Some(tail) = rest.strip_prefix(b".") else {
        return Some((whole as f64, rest));
    };
    let digits = tail.iter().take_while(|b| b.is_ascii_digit()).count();
    if digits == 0 {
        return Some((whole as f64, rest));
    }
    let mut scaled = whole;
    let mut scale: u64 = 1;
    for digit in &tail[..digits.min(9)] {
        scaled = scaled.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
        scale *= 10;
    }
    let value = if scaled == u64::MAX { whole as f64 } else { scaled as f64 / scale as f64 };
    Some((value, &tail[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_its_lines_with_and_without_the_last_newline() {
        let of = |text: &'static str| lines(text.as_bytes()).map(<[u8]>::len).collect::<Vec<_>>();
        assert_eq!(of(""), []);
        assert_eq!(of("\n"), [0]);
        assert_eq!(of("a\nbb"), [1, 2]);
        assert_eq!(of("a\nbb\n"), [1, 2]);
        assert_eq!(of("a\n\nbb\n\n"), [1, 0, 2, 0]);
    }

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
    fn a_path_is_unescaped_as_far_as_it_is_escaped() {
        let paths = [
            ("a\\040b", "a b"),
            ("/a\\040b", "/a b"),
            ("\\134", "\\"),
            ("\\", "\\"),
            ("\\04", "\\04"),
            ("/a\\04", "/a\\04"),
            ("/a\\09x", "/a\\09x"),
            ("\\777", "\\777"),
            ("\\999", "\\999"),
        ];
        for (word, path) in paths {
            assert_eq!(unescaped(word.as_bytes()), path.as_bytes(), "{word}");
        }
    }

    #[test]
    fn numbers_saturate_and_leave_what_follows() {
        assert_eq!(unsigned(b"17 kB"), Some((17, &b" kB"[..])));
        assert_eq!(unsigned(b"18446744073709551615"), Some((u64::MAX, &b""[..])));
        assert_eq!(unsigned(b"99999999999999999999999x"), Some((u64::MAX, &b"x"[..])));
        assert_eq!(unsigned(b""), None);
        assert_eq!(unsigned(b"-1"), None);
        assert_eq!(unsigned(b"\xff\xfe"), None);
    }

    #[test]
    fn decimals_are_the_nearest_double() {
        for text in ["0.00", "1.26", "0.1", "123456.78", "7", "0.123456789"] {
            let parsed = decimal(text.as_bytes()).map(|(value, _)| value);
            assert_eq!(parsed, text.parse().ok(), "{text}");
        }
        assert_eq!(decimal(b"1. x"), Some((1.0, &b". x"[..])));
        assert_eq!(decimal(b"2.1234567890123 x"), Some((2.123456789, &b" x"[..])));
        assert_eq!(decimal(b"99999999999999999999.5"), Some((u64::MAX as f64, &b""[..])));
        assert_eq!(decimal(b".5"), None);
    }
}
