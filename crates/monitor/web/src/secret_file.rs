//! Files with a secret: the password's line, or the key of a certificate.
//!
//! The file must belong to root or to the user of this process, and no other user may read or write
//! the file. A systemd credential belongs to root. The credential's access list for the unit's user
//! appears as a read permission of the group.

use rustix::process::geteuid;
use std::env;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Mode bits of users other than the owner.
const OTHERS: u32 = 0o077;
/// Mode bit that represents the access list of a credential.
const LISTED: u32 = 0o040;

/// Reads a text of at most `most` bytes. The error is the reason why the file cannot be used.
pub(crate) fn read(path: &Path, most: u64) -> Result<String, String> {
    let credentials = env::var_os("CREDENTIALS_DIRECTORY");
    let is_credential =
        credentials.is_some_and(|credentials| path.parent() == Some(credentials.as_ref()));
    let mut file = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => {
            format!(
                "{error}: use LoadCredential= in the service's unit, or `chown` the file to \
                 this process's user"
            )
        }
        _ => error.to_string(),
    })?;
    let found = file.metadata().map_err(|error| error.to_string())?;
    let us = geteuid().as_raw();
    if let Some(fault) = fault(found.uid(), found.mode(), us, is_credential) {
        return Err(fault);
    }
    let mut text = String::new();
    (&mut file).take(most + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    match text.len() as u64 > most {
        true => Err(format!("it has more than {most} bytes")),
        false => Ok(text),
    }
}

/// Returns the reason why a file with this owner and mode does not protect a secret.
fn fault(owner: u32, mode: u32, us: u32, is_credential: bool) -> Option<String> {
    if owner != 0 && owner != us {
        return Some(format!(
            "it belongs to user {owner}, who may change it: `chown` it to root or to user {us}, \
             the user of this process"
        ));
    }
    let allowed = if is_credential { LISTED } else { 0 };
    (mode & OTHERS & !allowed != 0).then(|| {
        format!(
            "its mode is {:03o}, so users other than its owner may read or write it: `chmod 600` \
             it",
            mode & 0o777
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding2_14_secret_must_belong_to_this_user_or_root() {
        let fault = |owner, mode: u32| fault(owner, 0o100_000 | mode, 990, false);
        for owner in [0, 990] {
            assert_eq!([0o600, 0o400].map(|mode| fault(owner, mode)), [None, None]);
            for mode in [0o640, 0o604, 0o620, 0o602, 0o644, 0o440] {
                let why = fault(owner, mode).unwrap();
                assert!(why.contains(&format!("mode is {mode:o}")), "{why}");
                assert!(why.contains("chmod 600"), "{why}");
            }
        }
        let foreign = fault(1_000, 0o600).unwrap();
        assert!(foreign.contains("to user 1000,") && foreign.contains("`chown`"), "{foreign}");
    }

    #[test]
    fn finding2_14_credential_may_have_an_access_list() {
        let fault = |owner, mode: u32| fault(owner, 0o100_000 | mode, 990, true);
        assert_eq!([fault(0, 0o440), fault(990, 0o400), fault(0, 0o600)], [None, None, None]);
        for mode in [0o444, 0o460, 0o450, 0o404] {
            assert!(fault(0, mode).is_some(), "{mode:o}");
        }
        assert!(fault(1_000, 0o440).is_some());
    }
}
