//! The password of a farm's database: made when the farm starts, known to the guests that need it.

use std::fmt;

/// Nobody tries 128 bits.
const BYTES: usize = 16;

/// A password. It is shown by no message, and is on no command line: a guest gets it through its
/// shell's own port.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// One that nobody had before.
    pub fn random() -> Result<Password, vm::Error> {
        let bytes: [u8; BYTES] = vm::random()?;
        Ok(Password(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The line for a guest's shell that puts it where the guest's servers find it. The words of
    /// a shell's own `printf` are in no list of processes.
    pub(crate) fn line(&self) -> String {
        format!(
            "mkdir -p /run/pinhead && (umask 077 && printf '%s\\n' {} > {FILE}) && \
             {{ [ ! -e {TAKE} ] || sh {TAKE}; }} > /dev/console 2>&1",
            self.0
        )
    }
}

/// Where it is in a guest.
const FILE: &str = "/run/pinhead/database-password";
/// What an image with servers does with it.
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
    fn finding_02_each_farm_has_a_password_of_its_own_that_is_not_shown() {
        let (one, other) = (Password::random().unwrap(), Password::random().unwrap());
        assert_ne!(one, other);
        assert!(one.0.len() == 32 && one.0.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(format!("{one:?}"), "Password");
        assert!(one.line().contains(&one.0) && !one.line().contains('\n'));
    }
}
