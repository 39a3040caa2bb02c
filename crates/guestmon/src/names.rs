//! Names of users and groups, as the system's own files have them. Where others keep them (LDAP),
//! numbers are told.

use procfs::Root;
use procfs::parse::{lines, number};
use std::collections::BTreeMap;
use std::fs;

/// What a record takes of a name.
pub const NAME_MAX: usize = 64;
/// The file that counts the users who are logged in. systemd's newer releases have none.
const LOGINS: &str = "run/utmp";
/// An entry of it: C's libraries have times of 64 bits there on s390x only.
const LOGIN_BYTES: usize = if cfg!(target_arch = "s390x") { 400 } else { 384 };
/// The type of an entry that is somebody's.
const USER_PROCESS: i16 = 7;

/// Names by number.
#[derive(Debug, Default)]
pub struct Names(BTreeMap<u64, Vec<u8>>);

impl Names {
    /// Those of a file.
    pub(crate) fn read(root: &Root, path: &str) -> Names {
        Names::parse(&fs::read(root.join(path)).unwrap_or_default())
    }

    /// Those of a text with a name, a word and a number in each line.
    pub fn parse(text: &[u8]) -> Names {
        let mut names = BTreeMap::new();
        for line in lines(text) {
            let mut fields = line.split(|byte| *byte == b':');
            if let (Some(name), Some(id)) = (fields.next(), fields.nth(1).and_then(number)) {
                // The first one counts.
                names.entry(id).or_insert_with(|| name[..name.len().min(NAME_MAX)].to_vec());
            }
        }
        Names(names)
    }

    /// The name of a number, or the number.
    pub fn of(&self, id: u64) -> Vec<u8> {
        self.0.get(&id).cloned().unwrap_or_else(|| id.to_string().into_bytes())
    }
}

/// How many users are logged in.
pub(crate) fn logins(root: &Root) -> u32 {
    let bytes = fs::read(root.join(LOGINS)).unwrap_or_default();
    let is_user = |entry: &&[u8]| {
        entry.first_chunk().is_some_and(|kind| i16::from_ne_bytes(*kind) == USER_PROCESS)
    };
    let count = bytes.chunks_exact(LOGIN_BYTES).filter(is_user).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}
