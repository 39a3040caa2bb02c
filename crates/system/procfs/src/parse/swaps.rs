//! /proc/swaps: a line of titles, then a line for each area.

use super::{lines, number, unescaped, words};

/// A swap area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapArea {
    /// The file or the device.
    pub name: String,
    pub size_kib: u64,
    pub used_kib: u64,
    pub priority: i64,
}

/// Returns the areas. Malformed lines are left out.
pub fn swap_areas(text: &[u8]) -> impl Iterator<Item = SwapArea> {
    lines(text).skip(1).filter_map(area)
}

/// Parses a line: name, type, size in KiB, use in KiB, and priority.
fn area(line: &[u8]) -> Option<SwapArea> {
    let mut words = words(line);
    let name = String::from_utf8_lossy(&unescaped(words.next()?)).into_owned();
    let [size_kib, used_kib] = [number(words.nth(1)?)?, number(words.next()?)?];
    let priority = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    Some(SwapArea { name, size_kib, used_kib, priority })
}
