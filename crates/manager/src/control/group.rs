//! The number of a group.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::Error;

/// A larger list of groups is not read to its end.
const GROUPS_MAX: u64 = 4 << 20;

/// Finds a group by its number, or by its name in a list such as /etc/group. Groups that only a
/// directory service knows are named by number.
pub(super) fn find(list: &Path, group: &str) -> Result<u32, Error> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let mut text = Vec::new();
    File::open(list)
        .and_then(|file| file.take(GROUPS_MAX).read_to_end(&mut text))
        .map_err(|source| Error::Step { step: "read", path: list.to_path_buf(), source })?;
    let text = String::from_utf8_lossy(&text);
    let number = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(group)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    number.ok_or_else(|| Error::NoSuchGroup { group: group.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::scratch::Scratch;

    #[test]
    fn by_name_and_by_number() {
        let dir = Scratch::new();
        let list = dir.file("group", "root:x:0:\npin:x:x:\npinhead:x:107:a,b\n");
        assert_eq!(find(&list, "pinhead").unwrap(), 107);
        assert_eq!(find(&list, "42").unwrap(), 42);
        assert!(find(&list, "pin").unwrap_err().to_string().contains("no group pin"));
    }
}
