//! Targets for lists of a host: its users and groups, and the guests that a manager has parked.

use manager::{number_in, record_again};
use vm::images::is_private;

use crate::input::texts;

/// The user and the group that are queried.
const NUMBER: u32 = 1_000;

/// Checks lists of users and groups. If the number of a group is found, a line must begin with the
/// group's name. A group with another member must not count as private.
pub(crate) fn account_lists(data: &[u8]) {
    let mut lists = texts(data).map(String::from_utf8_lossy);
    let users = lists.next().unwrap_or_default();
    let groups = lists.next().unwrap_or_default();
    let name = users.split(':').next().unwrap_or_default();
    if let Some(number) = number_in(&groups, name) {
        let starts = |line: &str| line.starts_with(name) && line.contains(':');
        assert!(groups.lines().any(starts), "{name} is {number}");
    }
    if !is_private(&users, &groups, NUMBER, NUMBER) {
        return;
    }
    assert!(!is_private(&users, &groups, NUMBER + 1, NUMBER));
    let more = format!("{users}\nother:x:{}:{NUMBER}::/:", NUMBER + 1);
    assert!(!is_private(&more, &groups, NUMBER, NUMBER));
    let more = format!("{groups}\nother:x:{NUMBER}:");
    assert!(!is_private(&users, &more, NUMBER, NUMBER));
    let more = format!("{groups}\nother:x:{}:other", NUMBER + 1);
    assert!(is_private(&users, &more, NUMBER, NUMBER));
}

/// Checks the record of parked guests, which is read and written again. The result must not have
/// more lines. A second round must not change the result.
pub(crate) fn parked_record(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let again = record_again(&text);
    assert_eq!(record_again(&again), again);
    assert!(again.lines().count() <= text.lines().count());
}
