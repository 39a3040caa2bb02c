//! Errors in a text of settings, with their positions.

use std::fmt;
use std::ops::Range;

/// Maximum number of errors that are reported. A file with more errors is no file of settings.
pub const ERRORS_MAX: usize = 50;

/// An error in a file's text. Parts that are quoted from the file are escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// The column in that line, from 1, in characters.
    pub column: usize,
    /// The byte range in the text.
    pub span: Range<usize>,
    /// The key, such as `host.set_point`; empty if the error concerns the text as a whole.
    pub key: String,
    /// The error.
    pub message: String,
    /// A correction, if one is known.
    pub help: Option<String>,
}

impl Fault {
    /// Creates an error at these bytes of a text.
    pub fn at(
        text: &str,
        span: Range<usize>,
        key: &str,
        message: String,
        help: Option<&str>,
    ) -> Fault {
        let start = text.floor_char_boundary(span.start);
        let span = start..text.floor_char_boundary(span.end.max(start));
        let before = text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Fault {
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
            span,
            key: key.to_owned(),
            message,
            help: help.map(str::to_owned),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, " ({help})"))
    }
}
