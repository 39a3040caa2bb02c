//! The reader of a whole file, with the part that is read so far.

use super::{MAX_FILE, Name, RuleFile, Text};
use crate::diag::{Diagnostic, Span};
use crate::parse::HostName;

/// Reads a guest's rules file. The readable part is always returned; the file is usable only if no
/// diagnostic is an error.
pub fn parse(text: &[u8]) -> (RuleFile, Vec<Diagnostic>) {
    read_as(None, text)
}

/// Reads a host rules file if `host_name` is given, and a guest's rules file otherwise.
pub(crate) fn read_as(host_name: Option<HostName>, text: &[u8]) -> (RuleFile, Vec<Diagnostic>) {
    let mut reader = FileReader::new(host_name);
    if text.len() > MAX_FILE {
        let message = format!("The file is larger than {MAX_FILE} bytes: it is no rules file");
        return reader.refused("too-large", message, "");
    }
    if let Some((message, help)) = base::foreign_encoding(text) {
        return reader.refused("encoding", message.into(), help);
    }
    reader.lines(text);
    reader.expressions();
    reader.diagnostics.sort_by_key(|d| (d.span.start, d.span.end));
    reader.diagnostics.dedup();
    (reader.file, reader.diagnostics)
}

/// Returns the predefined names that a text sets, of either kind of file.
pub(crate) fn names_set(text: &[u8]) -> Vec<Name> {
    let mut reader = FileReader::new(None);
    reader.lines(&text[..text.len().min(MAX_FILE)]);
    Name::ALL.iter().copied().filter(|name| reader.file.set[*name as usize]).collect()
}

/// A rule that waits for parsing until all variables are known.
pub(super) struct Pending {
    pub(super) name: Name,
    pub(super) span: Span,
    pub(super) value: Text,
    /// Number of variables defined above the rule.
    pub(super) variables: usize,
}

pub(super) struct FileReader {
    pub(super) file: RuleFile,
    pub(super) host_name: Option<HostName>,
    pub(super) pending: Vec<Pending>,
    /// Bytes used in the original's buffer for variables.
    pub(super) room: usize,
    pub(super) first: bool,
    pub(super) diagnostics: Vec<Diagnostic>,
}
