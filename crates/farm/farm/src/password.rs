//! Password of a farm's database. The password is generated at the farm's start, and sent to the
//! guests that need it.

use std::fmt;

/// Length of a password in bytes. Nobody can guess 128 random bits.
const BYTES: usize = 16;

/// A password. The password appears in no message and on no command line, because a guest gets it
/// through its shell's own port.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Returns a random password.
    pub fn random() -> Result<Password, vm::Error> {
        let bytes: [u8; BYTES] = vm::random()?;
        Ok(Password(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Returns the line for a guest's shell that saves the password for the guest's servers. The
    /// line uses the shell's built-in `printf`, so that no process list shows the password.
    pub(crate) fn line(&self) -> String {
        format!(
            "mkdir -p /run/pinhead && (umask 077 && printf '%s\\n' {} > {FILE}) && \
             {{ [ ! -e {TAKE} ] || sh {TAKE}; }} > /dev/console 2>&1",
            self.0
        )
    }
}

/// File with the password in a guest.
const FILE: &str = "/run/pinhead/database-password";
/// Script of a server image that applies the password.
const TAKE: &str = "/usr/lib/pinhead/take-password";

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_02_farm_has_its_own_password_that_is_not_shown() {
        let (one, other) = (Password::random().unwrap(), Password::random().unwrap());
        assert_ne!(one, other);
        assert!(one.0.len() == 32 && one.0.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(format!("{one:?}"), "Password");
        assert!(one.line().contains(&one.0) && !one.line().contains('\n'));
    }
}
