//! Detection of private groups, which have one user as their only member.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Maximum number of bytes read from a list. A longer list counts as unreadable.
const LIST_MAX: u64 = 4 << 20;

/// Returns true if a group is a user's private group. Many systems create such a group for each
/// user. A private group is the user's primary group and has the user's name, and neither list
/// names another member. `etc` is the directory with the lists `passwd` and `group`.
pub(crate) fn is_private_group(etc: &Path, uid: u32, gid: u32) -> bool {
    let (Some(users), Some(groups)) = (read(&etc.join("passwd")), read(&etc.join("group"))) else {
        return false;
    };
    is_private(&users, &groups, uid, gid)
}

/// Returns true if the lists of users and groups show that a group is a user's private group.
pub fn is_private(users: &str, groups: &str, uid: u32, gid: u32) -> bool {
    let number = |field: Option<&&str>| field.and_then(|text| text.parse::<u32>().ok());
    // NAME:x:UID:GID:...
    let mut of_group = Vec::new();
    for line in users.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        if number(fields.get(3)) == Some(gid) {
            of_group.push((fields[0], number(fields.get(2))));
        }
    }
    let [(user, Some(number_of_user))] = of_group[..] else { return false };
    // NAME:x:GID:MEMBER,MEMBER
    let of_number = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found: Vec<_> = of_number.filter(|fields| number(fields.get(2)) == Some(gid)).collect();
    let is_alone = |fields: &Vec<&str>| {
        let members = fields.get(3).copied().unwrap_or_default();
        fields[0] == user && members.split(',').all(|member| member.is_empty() || member == user)
    };
    number_of_user == uid && !found.is_empty() && found.iter().all(is_alone)
}

fn read(list: &Path) -> Option<String> {
    let mut text = Vec::new();
    File::open(list).ok()?.take(LIST_MAX + 1).read_to_end(&mut text).ok()?;
    // The unread rest of a longer list could name more members.
    (text.len() as u64 <= LIST_MAX).then(|| String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_group_is_private_if_nobody_else_is_in_it() {
        let etc = crate::Scratch::new("images-etc").unwrap();
        let users = "root:x:0:0::/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\n";
        let check = |users: &str, groups: &str, expected: bool| {
            fs::write(etc.join("passwd"), users).unwrap();
            fs::write(etc.join("group"), groups).unwrap();
            assert_eq!(is_private_group(etc.path(), 1000, 1000), expected, "{users}{groups}");
        };
        check(users, "root:x:0:\nme:x:1000:\n", true);
        check(users, "me:x:1000:me\n", true);
        for groups in [
            "me:x:1000:you\n",
            "me:x:1000:me,you\n",
            "users:x:1000:\n",
            "me:x:1000:\nmore:x:1000:you\n",
            "me:x:1001:\n",
            "me:x:x:\n",
            "",
        ] {
            check(users, groups, false);
        }
        for more in ["you:x:1001:1000::/:/bin/sh\n", "you:x:x:1000::/:/bin/sh\n"] {
            check(&format!("{users}{more}"), "me:x:1000:\n", false);
        }
        check("me:x:1000:100::/:/bin/sh\n", "me:x:1000:\n", false);
        check("me:x:1001:1000::/:/bin/sh\n", "me:x:1000:\n", false);
        assert!(!is_private_group(&etc.join("none"), 1000, 1000), "there are no lists");
    }
}
