//! What can be wrong with a text of settings, and where.

use std::fmt;
use std::ops::Range;

/// More faults than this are not reported: the file is something else.
pub const ERRORS_MAX: usize = 50;

/// A fault of a file's text. What is quoted in it comes from the file, escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
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
    /// What would be right, if that is known.
    pub help: Option<String>,
}

impl Fault {
    /// A fault at these bytes of a text.
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
