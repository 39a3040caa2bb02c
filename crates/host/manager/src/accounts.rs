//! Numbers of users and groups, by their names in /etc/passwd and /etc/group.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Maximum size of a list such as /etc/passwd, in bytes.
const LIST_MAX: u64 = 4 << 20;

/// Finds a user or a group by its number, or by its name in a list such as /etc/passwd. Users and
/// groups of a directory service are not in these lists, and are found by number only.
pub(crate) fn number(list: &Path, name: &str) -> io::Result<Option<u32>> {
    if let Ok(number) = name.parse() {
        return Ok(Some(number));
    }
    let mut text = Vec::new();
    File::open(list).and_then(|file| file.take(LIST_MAX + 1).read_to_end(&mut text))?;
    if text.len() as u64 > LIST_MAX {
        // A list that is too long is refused: a cut could shorten the number in its last line.
        let reason = format!("it has more than {} MiB", LIST_MAX >> 20);
        return Err(io::Error::new(ErrorKind::InvalidData, reason));
    }
    Ok(number_in(&String::from_utf8_lossy(&text), name))
}

/// Returns the number of the user or group `name` in the text of a list such as /etc/passwd.
pub fn number_in(list: &str, name: &str) -> Option<u32> {
    list.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::Tree;

    #[test]
    fn list_that_is_too_long_is_refused_and_not_cut() {
        let dir = Tree::create();
        let filler = "#".repeat((LIST_MAX as usize) - "\npinhead:x:10".len());
        let list = dir.file("group", &format!("{filler}\npinhead:x:107:\n"));
        let error = number(&list, "pinhead").unwrap_err().to_string();
        assert_eq!(error, "it has more than 4 MiB");
    }
}
