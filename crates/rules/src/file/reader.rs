//! Reads a file as a whole, and holds the part that is read so far.

use super::{MAX_FILE, Name, RuleFile, Text};
use crate::diag::{Diagnostic, Span};
use crate::parse::HostName;

/// Reads a guest's rules file. Always returns what could be read; the file is usable only
/// if no diagnostic is an error.
pub fn parse(text: &[u8]) -> (RuleFile, Vec<Diagnostic>) {
    read_as(None, text)
}

/// Reads a host's rules file where names of one can be read, otherwise a guest's.
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

/// The predefined names that a text sets, of whatever kind of file they are.
pub(crate) fn names_set(text: &[u8]) -> Vec<Name> {
    let mut reader = FileReader::new(None);
    reader.lines(&text[..text.len().min(MAX_FILE)]);
    Name::ALL.iter().copied().filter(|name| reader.file.set[*name as usize]).collect()
}

/// A rule whose expression waits until all variables are known.
pub(super) struct Pending {
    pub(super) name: Name,
    pub(super) span: Span,
    pub(super) value: Text,
    /// How many variables stand above it.
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
