//! The numbers of users and groups, by the names that /etc/passwd and /etc/group have for them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A larger list is not read to its end.
const LIST_MAX: u64 = 4 << 20;

/// Finds a user or a group by its number, or by its name in such a list. Those that only a
/// directory service knows are named by number.
pub(crate) fn number(list: &Path, name: &str) -> io::Result<Option<u32>> {
    if let Ok(number) = name.parse() {
        return Ok(Some(number));
    }
    let mut text = Vec::new();
    File::open(list).and_then(|file| file.take(LIST_MAX).read_to_end(&mut text))?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    }))
}
