//! Users named in the settings, and their part of the host.

use crate::config::UserPart;
use crate::{Error, accounts};
use base::Bytes;
use hypervisor::{Owner, Trust};
use std::collections::BTreeMap;
use std::path::Path;

/// Users of `[sources] users`, by number.
#[derive(Clone, Debug, Default)]
pub struct Users {
    names: BTreeMap<Owner, String>,
    host_total: Bytes,
}

impl Users {
    /// Finds the users with these names, or numbers, in a list such as /etc/passwd.
    pub fn find(names: &[String], list: &Path, host_total: Bytes) -> Result<Users, Error> {
        let number = |name: &String| {
            let read = |source| Error::Accounts { path: list.to_path_buf(), source };
            let number = accounts::number(list, name).map_err(read)?;
            let number = number.ok_or_else(|| Error::NoSuchUser { user: name.clone() })?;
            Ok((Owner(number), name.clone()))
        };
        let mut known: BTreeMap<Owner, String> = BTreeMap::new();
        for name in names {
            let (owner, name) = number(name)?;
            if let Some(first) = known.insert(owner, name.clone()) {
                return Err(Error::OneUserTwice { first, second: name, number: owner.0 });
            }
        }
        Ok(Users { names: known, host_total })
    }

    /// Returns the users with managed guests.
    pub fn trust(&self) -> Trust {
        Trust::naming(self.names.keys().copied())
    }

    /// Returns the name of a user other than root and the manager's user; `None` for these two.
    pub(crate) fn stranger(&self, owner: Owner) -> Option<String> {
        let name = || self.names.get(&owner).cloned().unwrap_or_else(|| owner.0.to_string());
        (!owner.is_trusted()).then(name)
    }

    /// Returns the part of a user with guests of these sizes.
    pub(crate) fn part(&self, user: &str, sizes: impl Iterator<Item = Bytes>) -> UserPart {
        let (mut memory, mut guests) = (Bytes::ZERO, 0);
        for size in sizes {
            (memory, guests) = (memory.plus(size), guests + 1);
        }
        UserPart { user: user.to_owned(), memory, guests, host_total: self.host_total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::Tree;

    #[test]
    fn users_are_found_by_name_or_number_and_unknown_ones_refused() {
        let dir = Tree::create();
        let list = dir.file("passwd", "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/:/bin/sh\n");
        let find = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            Users::find(&names, &list, Bytes::ZERO)
        };
        let users = find(&["alice", "4242"]).unwrap();
        assert_eq!(users.stranger(Owner(1000)).as_deref(), Some("alice"));
        assert_eq!(users.stranger(Owner(4242)).as_deref(), Some("4242"));
        assert_eq!(users.stranger(Owner::ROOT), None);
        assert!(users.trust().covers(Owner(4242)) && !users.trust().covers(Owner(4243)));
        let error = find(&["alice", "4242", "1000"]).unwrap_err().to_string();
        assert!(
            error.contains("alice and 1000") && error.contains("`users` of [sources]"),
            "{error}"
        );
        let error = find(&["bob"]).unwrap_err().to_string();
        assert!(error.contains("no user bob") && error.contains("[sources] users"), "{error}");
    }
}
