//! Why a file was not taken.

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
    /// It is longer than any description of a farm.
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
        /// What is wrong, in the order of the text.
        faults: Vec<Fault>,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Read { path, .. } => {
                write!(f, "The farm's file {} cannot be read", path.display())
            }
            LoadError::TooLong { path } => write!(
                f,
                "{} has more than {} KiB: it describes no farm",
                path.display(),
                super::FILE_MAX / 1024
            ),
            LoadError::Utf8 { path, offset } => {
                write!(f, "{} is not UTF-8 at byte {offset}", path.display())
            }
            LoadError::Wrong { path, faults } => {
                for (place, fault) in faults.iter().enumerate() {
                    let line_end = if place == 0 { "" } else { "\n" };
                    write!(f, "{line_end}{}:{fault}", path.display())?;
                }
                Ok(())
            }
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
