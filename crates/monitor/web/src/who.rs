//! Keys of guests in addresses: the UUID, which survives a rename, or the name.
//!
//! The path of the guest's monitor replaces a UUID of zeros. The key of another user's guest, such
//! as `alice/web1`, is always the name, because that user may choose any UUID.

use crate::span::segment;
use model::{has_uuid, is_place};

/// Separator between the name of another user and the guest's name.
const OWNER: char = '/';
/// Prefix of a key that a browser would treat as a parent directory. A key that already begins with
/// this character gets the prefix, too.
const ESCAPE: &str = "=";

/// Returns the UUID if it reliably identifies the guest.
pub(crate) fn uuid_of<'a>(name: &str, uuid: &'a str) -> Option<&'a str> {
    let is_given = has_uuid(uuid) && !name.contains(OWNER);
    (is_given || is_place(uuid)).then_some(uuid)
}

pub(crate) fn key_of<'a>(name: &'a str, uuid: &'a str) -> &'a str {
    uuid_of(name, uuid).unwrap_or(name)
}

pub(crate) fn path_of(name: &str, uuid: &str) -> String {
    let key = key_of(name, uuid);
    let escape = if matches!(key, "." | "..") || key.starts_with(ESCAPE) { ESCAPE } else { "" };
    format!("/guest/{escape}{}", segment(key))
}

/// Returns the key in a segment of an address.
pub(crate) fn key_in(part: &str) -> &str {
    part.strip_prefix(ESCAPE).unwrap_or(part)
}

/// Returns the guest with this key. A UUID takes precedence over a name.
pub(crate) fn find<'a, T>(
    all: &'a [T],
    key: &str,
    names: impl Fn(&T) -> (&str, &str),
) -> Option<&'a T> {
    let by_uuid = all.iter().find(|one| {
        let (name, uuid) = names(one);
        uuid_of(name, uuid) == Some(key)
    });
    by_uuid.or_else(|| all.iter().find(|one| names(one).0 == key))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: &str = "00000000-0000-0000-0000-000000000000";

    #[test]
    fn key_of_a_guest_without_a_uuid_is_its_name() {
        let all = [("a", NONE), ("b", NONE), ("c", "12-34")];
        let found = |key: &str| find(&all, key, |one| *one).map(|one| one.0);
        assert_eq!(path_of("a", NONE), "/guest/a");
        assert_eq!(path_of("c", "12-34"), "/guest/12-34");
        assert_eq!(
            [found("b"), found("12-34"), found("c"), found(NONE)],
            [Some("b"), Some("c"), Some("c"), None]
        );
    }

    #[test]
    fn finding_a_uuid_of_another_users_guest_is_not_a_key() {
        let all = [("alice/vm", "12-34"), ("web1", "12-34")];
        let found = |key: &str| find(&all, key, |one| *one).map(|one| one.0);
        assert_eq!(found("12-34"), Some("web1"));
        assert_eq!(path_of("alice/vm", "12-34"), "/guest/alice%2Fvm");
        assert_eq!(found("alice/vm"), Some("alice/vm"));
    }

    #[test]
    fn report_h13_guests_of_one_name_have_their_own_pages() {
        let all = [("windows", "/run/a.qmp"), ("windows", "/run/b.qmp")];
        let found = |key: &str| find(&all, key, |one| *one).map(|one| one.1);
        assert_eq!(path_of("windows", "/run/b.qmp"), "/guest/%2Frun%2Fb.qmp");
        assert_eq!(found("/run/b.qmp"), Some("/run/b.qmp"));
    }

    #[test]
    fn names_like_parent_directories_lead_to_their_guests() {
        for name in ["..", ".", "=x", "a/b", "x"] {
            let path = path_of(name, "");
            let part = path.strip_prefix("/guest/").unwrap();
            assert!(part != ".." && part != ".", "{path}");
            let decoded = part.replace("%2F", "/").replace("%3D", "=");
            assert_eq!(key_in(&decoded), name);
        }
    }
}
