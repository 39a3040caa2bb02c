//! Names of z/VM users that are safe in a command.

/// Longest name, in characters.
const LENGTH_MAX: usize = 8;

/// A user's name without a special meaning for CP or for the program that sends messages. Names are
/// untrusted, and a name such as `-b` would be an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserId(String);

impl UserId {
    /// Parses a name; `None` if it is invalid.
    pub(crate) fn of(name: &str) -> Option<UserId> {
        let is_long = name.is_empty() || name.len() > LENGTH_MAX;
        let starts_well =
            name.starts_with(|first: char| first.is_ascii_alphanumeric() || "@#$".contains(first));
        let is_name = !is_long && starts_well && name.bytes().all(is_of_name);
        is_name.then(|| UserId(name.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"@#$_-+".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_user_name_is_rejected() {
        for name in ["LINUX01", "A", "$ALLOC$", "@#_-+$1Z", "0ABCDEFG"] {
            assert_eq!(UserId::of(name).unwrap().as_str(), name);
        }
        let nine = "ABCDEFGHI";
        for name in [
            "",
            "-BUFSIZE",
            "_A",
            "a",
            "A B",
            "A;B",
            "A\nB",
            "*",
            "A*",
            "Ä",
            "..",
            nine,
            "A\u{fffd}",
        ] {
            assert_eq!(UserId::of(name), None, "{name:?}");
        }
    }
}
