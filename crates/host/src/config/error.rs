//! What can be wrong with a file of settings, and where.

use std::fmt;
use std::io;
use std::path::PathBuf;

use settings::Fault;

/// Why a file was not taken.
#[derive(Debug)]
pub enum LoadError {
    /// It could not be read.
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is longer than any file of settings.
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// It is not text.
    Utf8 {
        /// The file.
        path: PathBuf,
        /// The first byte that is no character.
        offset: usize,
    },
    /// Its text is wrong.
    Wrong {
        /// The file.
        path: PathBuf,
        /// Its text, to show the places in it.
        text: String,
        /// What is wrong, in the order of the text.
        errors: Vec<Fault>,
    },
    /// A shadow policy has a shadow of its own.
    NestedShadow {
        /// The shadow's file.
        path: PathBuf,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Read { path, .. } => {
                write!(f, "The settings in {} cannot be read", path.display())
            }
            LoadError::TooLong { path } => write!(
                f,
                "{} has more than {} KiB: it is no file of settings",
                path.display(),
                super::FILE_MAX / 1024
            ),
            LoadError::Utf8 { path, offset } => {
                write!(f, "{} is not UTF-8 at byte {offset}", path.display())
            }
            LoadError::Wrong { path, errors, .. } => {
                write!(f, "{}", path.display())?;
                errors.first().map_or(Ok(()), |first| write!(f, ":{first}"))?;
                match errors.len() {
                    0 | 1 => Ok(()),
                    count => write!(f, ", and {} more", count - 1),
                }
            }
            LoadError::NestedShadow { path } => write!(
                f,
                "{} is a shadow policy and names another one: remove `shadow` from it",
                path.display()
            ),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LoadError::Read { source, .. } => Some(source),
            _ => None,
        }
    }
}
