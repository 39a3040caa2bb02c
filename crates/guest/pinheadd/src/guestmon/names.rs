//! Names of users and groups from the system's own files. Users and groups from other sources, such
//! as LDAP, are shown by their ids.

use procfs::Root;
use procfs::parse::{lines, number};
use std::collections::BTreeMap;
use std::fs;

/// Maximum length of a name in a record.
pub const NAME_MAX: usize = 64;
/// File of logged-in users, which recent releases of systemd do not write.
const LOGINS: &str = "run/utmp";
/// Length of an entry, in bytes. C libraries store 64-bit times in an entry only on s390x.
const LOGIN_BYTES: usize = if cfg!(target_arch = "s390x") { 400 } else { 384 };
/// Type of a user's entry.
const USER_PROCESS: i16 = 7;

/// Names by id.
#[derive(Debug, Default)]
pub struct Names(BTreeMap<u64, Vec<u8>>);

impl Names {
    pub(crate) fn read(root: &Root, path: &str) -> Names {
        Names::parse(&fs::read(root.join(path)).unwrap_or_default())
    }

    /// Parses a text with a name, a word and an id in each line.
    pub fn parse(text: &[u8]) -> Names {
        let mut names = BTreeMap::new();
        for line in lines(text) {
            let mut fields = line.split(|byte| *byte == b':');
            if let (Some(name), Some(id)) = (fields.next(), fields.nth(1).and_then(number)) {
                // The first name of an id counts.
                names.entry(id).or_insert_with(|| name[..name.len().min(NAME_MAX)].to_vec());
            }
        }
        Names(names)
    }

    /// Returns the name of an id, or the id as text.
    pub fn of(&self, id: u64) -> Vec<u8> {
        self.0.get(&id).cloned().unwrap_or_else(|| id.to_string().into_bytes())
    }
}

/// Returns the number of users logged in.
pub(crate) fn logins(root: &Root) -> u32 {
    let bytes = fs::read(root.join(LOGINS)).unwrap_or_default();
    let is_user = |entry: &&[u8]| {
        entry.first_chunk().is_some_and(|kind| i16::from_ne_bytes(*kind) == USER_PROCESS)
    };
    let count = bytes.chunks_exact(LOGIN_BYTES).filter(is_user).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}
