//! The text of a file of settings, and the errors of reading it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::Fault;

/// Maximum size of a file. A larger file is a mistake, because a class of guests takes about 300
/// bytes.
pub const FILE_MAX: u64 = 256 * 1024;

/// The reason why a file of settings is refused.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("The settings in {path} cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file is longer than any file of settings.
    #[error("{path} has more than {} KiB: it is no file of settings", FILE_MAX / 1024)]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The file is not text.
    #[error("{path} is not UTF-8 at byte {offset}")]
    Utf8 {
        /// The file.
        path: PathBuf,
        /// The offset of the first invalid byte.
        offset: usize,
    },
    /// The file is text in a foreign encoding.
    #[error("{path}: {message}; {help}")]
    Encoding {
        /// The file.
        path: PathBuf,
        /// The encoding that the file seems to have.
        message: &'static str,
        /// A way to convert the file.
        help: &'static str,
    },
    /// The text has errors. The message has the first error; [`LoadError::faults`] returns all
    /// errors.
    #[error("{path}{}", first(.faults))]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The errors, in the order of the text.
        faults: Vec<Fault>,
    },
    /// A shadow policy has its own shadow policy.
    #[error(
        "{path} is a shadow policy and names another shadow policy: remove `shadow` from {path}"
    )]
    NestedShadow {
        /// The shadow's file.
        path: PathBuf,
    },
}

impl LoadError {
    /// Returns all errors of the file, each on its own line with its position. `None` for any other
    /// kind of error.
    pub fn faults(&self) -> Option<String> {
        let LoadError::Wrong { path, faults } = self else { return None };
        let lines: Vec<String> =
            faults.iter().map(|fault| format!("{}:{fault}", path.display())).collect();
        Some(lines.join("\n"))
    }
}

fn first(faults: &[Fault]) -> String {
    match faults {
        [] => String::new(),
        [only] => format!(":{only}"),
        [first, rest @ ..] => format!(":{first}, and {} more", rest.len()),
    }
}

/// Reads a file's text.
pub fn load(path: &Path) -> Result<String, LoadError> {
    let path = path.to_path_buf();
    let mut bytes = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes));
    match read {
        Err(source) => return Err(LoadError::Read { path, source }),
        Ok(length) if length as u64 > FILE_MAX => return Err(LoadError::TooLong { path }),
        Ok(_) => {}
    }
    if let Some((message, help)) = base::foreign_encoding(&bytes) {
        return Err(LoadError::Encoding { path, message, help });
    }
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        LoadError::Utf8 { path, offset }
    })
}

#[cfg(test)]
mod tests {
    use super::{LoadError, load};

    #[test]
    fn report_g09_settings_in_another_encoding_are_named() {
        let name = format!("pinhead-settings-encoding-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // "NOTIFY" in code page 1047, as a binary transfer of a VMRM file delivers it.
        std::fs::write(&path, [0xd5, 0xd6, 0xe3, 0xc9, 0xc6, 0xe8, 0x40]).unwrap();
        let error = load(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(error, LoadError::Encoding { .. }));
        let message = error.to_string();
        assert!(message.contains("EBCDIC") && message.contains("iconv"), "{message}");
    }
}
