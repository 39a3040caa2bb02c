//! Lookup of a group's number.

use std::path::Path;

use super::Error;
use crate::accounts;

/// Finds a group by its number, or by its name in a list such as /etc/group.
pub(super) fn find(list: &Path, group: &str) -> Result<u32, Error> {
    let number = accounts::number(list, group).map_err(|source| Error::Step {
        step: "read",
        path: list.to_path_buf(),
        source,
    })?;
    number.ok_or_else(|| Error::NoSuchGroup { group: group.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::Tree;

    #[test]
    fn by_name_and_by_number() {
        let dir = Tree::create();
        let list = dir.file("group", "root:x:0:\npin:x:x:\npinhead:x:107:a,b\n");
        assert_eq!(find(&list, "pinhead").unwrap(), 107);
        assert_eq!(find(&list, "42").unwrap(), 42);
        assert!(find(&list, "pin").unwrap_err().to_string().contains("no group pin"));
    }
}
