//! /proc/swaps: a line of titles, then one for each area.

use super::{lines, number, words};

/// What memory is swapped to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapArea {
    /// The file or the device.
    pub name: String,
    pub size_kib: u64,
    pub used_kib: u64,
    pub priority: i64,
}

/// The areas, without the lines that do not read as the kernel writes them.
pub fn swap_areas(text: &[u8]) -> impl Iterator<Item = SwapArea> {
    lines(text).skip(1).filter_map(area)
}

/// Name, type, size and use in KiB, priority.
fn area(line: &[u8]) -> Option<SwapArea> {
    let mut words = words(line);
    let name = unescaped(words.next()?);
    let [size_kib, used_kib] = [number(words.nth(1)?)?, number(words.next()?)?];
    let priority = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    Some(SwapArea { name, size_kib, used_kib, priority })
}

/// A path as the kernel writes it, with blanks and the like as three octal digits.
fn unescaped(word: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, behind)) = rest.split_first() {
        let code = behind.get(..3).filter(|_| *first == b'\\').and_then(octal);
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { behind.get(3..).unwrap_or_default() } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_unescaped_as_far_as_it_is_escaped() {
        for (word, path) in [("a\\040b", "a b"), ("\\", "\\"), ("\\04", "\\04"), ("\\999", "\\999")]
        {
            assert_eq!(unescaped(word.as_bytes()), path);
        }
    }
}
