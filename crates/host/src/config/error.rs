//! What can be wrong with a file of settings, and where.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

/// More faults than this are not told: the file is something else.
pub(super) const ERRORS_MAX: usize = 50;

/// A fault of a file's text. What is quoted in it comes from the file, escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Its line, from 1.
    pub line: usize,
    /// Its column in that line, from 1, in characters.
    pub column: usize,
    /// Its bytes in the text.
    pub span: Range<usize>,
    /// The key, such as `host.set_point`; empty if it concerns the text as such.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What would be right, if that can be said.
    pub help: Option<String>,
}

impl ConfigError {
    /// A fault at these bytes of the text.
    pub(super) fn new(text: &str, span: Range<usize>, key: &str, message: String) -> ConfigError {
        let start = floor(text, span.start);
        let span = start..floor(text, span.end.max(start));
        let before = text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        ConfigError {
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
            span,
            key: key.to_owned(),
            message,
            help: None,
        }
    }

    /// The same, with what would be right.
    pub(super) fn help(mut self, help: impl Into<String>) -> ConfigError {
        self.help = Some(help.into());
        self
    }
}

/// The character's start at or before this byte.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, " ({help})"))
    }
}

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
        errors: Vec<ConfigError>,
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
