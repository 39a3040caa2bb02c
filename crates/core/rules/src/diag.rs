//! Diagnostics of a rules file, with their positions.

use base::named;

/// A range of the file in bytes: `start` is included, `end` is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The offset after the last byte.
    pub end: u32,
}

impl Span {
    /// Creates the range from `start` up to, but not including, `end`.
    pub fn new(start: usize, end: usize) -> Span {
        // Rules files are bounded far below 4 GiB before they are parsed.
        Span { start: start as u32, end: end.max(start) as u32 }
    }

    /// Returns the smallest range that contains both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

named! {
    /// The severity of a diagnostic.
    pub enum Severity {
        /// The file works, but probably not as intended.
        Warning = "warning",
        /// The file is refused.
        Error = "error",
    }
}

/// The codes of all diagnostics. A code is never reused for another meaning.
pub const CODES: &[&str] = &[
    "always-true",
    "cmm-max",
    "cpu-bounds",
    "defined-twice",
    "empty-number",
    "empty-rule",
    "encoding",
    "fixed-inc",
    "group-off",
    "history",
    "ignored-line",
    "ignored-text",
    "indented-comment",
    "language",
    "line-too-long",
    "name",
    "never-true",
    "no-dec",
    "no-pool",
    "no-step",
    "nothing-to-do",
    "number",
    "oscillation",
    "other-group",
    "overruled",
    "per-second",
    "portable",
    "precedence",
    "quotes",
    "recursion",
    "retired-counter",
    "settings",
    "shared-in-cache",
    "steal-as-active",
    "syntax",
    "too-deep",
    "too-large",
    "too-many-variables",
    "type",
    "unknown-counter",
    "unknown-name",
    "update",
    "used-before-defined",
    "wrong-file",
];

/// The help for a value that contains a quote.
pub(crate) const LAST_QUOTE: &str =
    "a value ends at the last quote of its line: remove quotes from the comment behind the value";

/// A diagnostic of a rules file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// A stable short name, for scripts and for the manual.
    pub code: &'static str,
    /// The part of the file that the diagnostic concerns.
    pub span: Span,
    /// The error, in one sentence.
    pub message: String,
    /// A description of the underlined part.
    pub label: String,
    /// A correction.
    pub help: Option<String>,
}

impl Diagnostic {
    pub(crate) fn error(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        debug_assert!(CODES.contains(&code), "{code} is not in the table");
        Diagnostic {
            severity: Severity::Error,
            code,
            span,
            message: message.into(),
            label: String::new(),
            help: None,
        }
    }

    /// Creates a warning, for checks in this crate and in higher layers.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Sets the description of the underlined part.
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// Sets the correction.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }
}

/// Returns true if any diagnostic is an error, so that the file is refused.
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|d| d.severity == Severity::Error)
}

/// Returns the line and column of a byte offset, both counted from 1. Columns count bytes, as in
/// compilers, because rules are ASCII.
pub fn line_column(text: &[u8], offset: u32) -> (usize, usize) {
    let before = &text[..text.len().min(offset as usize)];
    let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
    let start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    (line, before.len() - start + 1)
}

/// Returns the one-line form, for logs: `file:line:column: error[code]: message; help`.
pub fn one_line(file: &str, text: &[u8], diagnostic: &Diagnostic) -> String {
    let (line, column) = line_column(text, diagnostic.span.start);
    let Diagnostic { severity, code, message, help, .. } = diagnostic;
    let mut out = format!("{file}:{line}:{column}: {severity}[{code}]: {message}");
    if let Some(help) = help {
        out.push_str("; ");
        out.push_str(help);
    }
    out
}
