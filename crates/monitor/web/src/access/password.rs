//! Password of the pages. Its file contains one line of Argon2id.

use crate::{Error, secret_file};
use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Minimum length of a password, in characters. Shorter passwords are guessed too quickly.
const CHARS_MIN: usize = 8;
/// Maximum size of the file, in bytes.
const FILE_MAX: u64 = 1_024;

/// Hash that passwords are compared with.
pub(crate) struct Password {
    line: String,
}

// The hash never appears in a log.
impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password")
    }
}

impl Password {
    pub(crate) fn read(path: &Path) -> Result<Password, Error> {
        let wrong = |why: &str| Error::PasswordFile { path: path.into(), why: why.into() };
        let text = secret_file::read(path, FILE_MAX).map_err(|why| wrong(&why))?;
        Password::of(&text).map_err(wrong)
    }

    /// Parses the text of a password file. The error is the reason, for the user.
    pub(crate) fn of(text: &str) -> Result<Password, &'static str> {
        let line = text.trim();
        if line.lines().count() != 1 {
            return Err("it must be one line: create it with `pinhead web --new-password`");
        }
        let is_ours = PasswordHash::new(line).is_ok_and(|hash| {
            hash.algorithm.as_str() == "argon2id" && hash.hash.is_some() && hash.salt.is_some()
        });
        if !is_ours {
            return Err(
                "its line must be `$argon2id$v=19$…`: create it with `pinhead web --new-password`",
            );
        }
        Ok(Password { line: line.to_owned() })
    }

    /// Returns true if a text is the password. The comparison is slow on purpose, and takes some
    /// hundredths of a second.
    pub(crate) fn is(&self, text: &str) -> bool {
        PasswordHash::new(&self.line)
            .is_ok_and(|hash| Argon2::default().verify_password(text.as_bytes(), &hash).is_ok())
    }
}

/// Writes a password file that only its owner may read. An existing file is replaced atomically.
pub fn write_password(path: &Path, password: &str) -> Result<(), Error> {
    let wrong = |why: &str| Error::PasswordFile { path: path.into(), why: why.into() };
    let unwritten = |source| Error::File { path: path.into(), source };
    if password.chars().count() < CHARS_MIN {
        return Err(wrong(&format!(
            "nothing was written: a password needs at least {CHARS_MIN} characters"
        )));
    }
    let mut salt = [0; 16];
    getrandom(&mut salt, GetRandomFlags::empty())
        .map_err(|errno| Error::Step { step: "get random numbers", source: errno.into() })?;
    let hash = Argon2::default()
        .hash_password_with_salt(password.as_bytes(), &salt)
        .map_err(|error| wrong(&format!("nothing was written: {error}")))?;
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = Path::new(&name);
    match fs::remove_file(new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(unwritten(error)),
        _ => {}
    }
    let written = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(new);
    let written = written
        .and_then(|mut file| writeln!(file, "{hash}").and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(new, path));
    written.map_err(|error| {
        // A file that was written only in part must not stay.
        let _ = fs::remove_file(new);
        unwritten(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::PathBuf;

    struct File(PathBuf);

    impl File {
        fn new(name: &str, text: &str, mode: u32) -> File {
            let name = format!("pinhead-web-password-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            File(path)
        }

        fn wrong(&self) -> String {
            Password::read(&self.0).unwrap_err().to_string()
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn only_the_written_password_is_accepted() {
        let file = File::new("good", "what was there before", 0o644);
        write_password(&file.0, "correct horse").unwrap();
        assert_eq!(fs::metadata(&file.0).unwrap().mode() & 0o777, 0o600);
        let password = Password::read(&file.0).unwrap();
        assert!(password.is("correct horse"));
        for other in ["", "correct", "correct horse ", "Correct horse"] {
            assert!(!password.is(other), "{other:?}");
        }
        assert_eq!(format!("{password:?}"), "Password");
        let text = fs::read_to_string(&file.0).unwrap();
        assert!(text.starts_with("$argon2id$v=19$m=") && !text.contains("horse"), "{text}");
        // The salt is random, so the same password results in another line.
        write_password(&file.0, "correct horse").unwrap();
        assert_ne!(fs::read_to_string(&file.0).unwrap(), text);
        let error = write_password(&file.0, "1234567").unwrap_err().to_string();
        assert!(error.contains("a password needs at least 8 characters"), "{error}");
        assert!(Password::read(&file.0).unwrap().is("correct horse"), "the old file is unchanged");
    }

    #[test]
    fn invalid_password_files_are_refused_with_the_remedy() {
        let others = File::new("others", "x", 0o640).wrong();
        assert!(others.contains("its mode is 640") && others.contains("chmod 600"), "{others}");
        for (name, text) in [
            ("plain", "correct horse"),
            ("other", "$2b$12$abcdefghijklmnopqrstuvwxyz"),
            ("unsalted", "$argon2id$v=19$m=19456,t=2,p=1"),
        ] {
            let error = File::new(name, text, 0o600).wrong();
            assert!(error.contains("--new-password"), "{error}");
        }
        let two = File::new("two", "x\nx\n", 0o600).wrong();
        assert!(two.contains("must be one line"), "{two}");
        let long = File::new("long", &"x\n".repeat(2_000), 0o600).wrong();
        assert!(long.contains("more than 1024 bytes"), "{long}");
        let error = Password::read(Path::new("/nonexistent/password")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/password"), "{error}");
    }
}
