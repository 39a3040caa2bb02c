//! Rules of the host's manager: the expressions of a guest's rules, with the manager's counters of
//! a guest and of the host.
//!
//! ```text
//!   bytes ─► parse ─► RuleFile ─► compile ─► HostProgram
//!   a row for each pass and guest ─► History ─► evaluate ─► HostWords ─► the arbiter
//! ```
//!
//! A host's rules replace or guard parts of the arbiter, and each of them is optional. The
//! additions to the language are always available, because no other daemon reads such a file.

pub use crate::compile::host_program as compile;
pub use crate::host_program::{HostProgram, HostWords};

use crate::compile::Machine;
use crate::diag::{Diagnostic, has_errors};
use crate::explain::{Explanation, explain_file};
use crate::file::reader::{names_set, read_as};
use crate::file::{FileKind, RuleFile};
use model::counters::{Counter, History};

/// Returns the kind of a rules file, by the names that it sets. A file that could run in a guest
/// counts as a guest's file, even if it also sets names of a host's file.
pub fn recognise(text: &[u8]) -> FileKind {
    let sets = names_set(text);
    let any = |names: &[crate::Name]| names.iter().any(|name| sets.contains(name));
    use crate::Name::{Hotplug, Hotunplug, Memplug, Memunplug, Update};
    let could_run = any(&[Update]) && any(&[Hotplug, Hotunplug, Memplug, Memunplug]);
    match any(FileKind::Host.names()) && !could_run {
        true => FileKind::Host,
        false => FileKind::Guest,
    }
}

/// Reads a host rules file, as [`crate::parse`] reads a guest's rules file.
pub fn parse(text: &[u8]) -> (RuleFile, Vec<Diagnostic>) {
    read_as(Some(|parser, word, start| parser.host_name(word, start)), text)
}

/// Reads and compiles a text, and returns its diagnostics in order. Returns a program only if no
/// diagnostic is an error.
pub fn load(text: &[u8]) -> (Option<HostProgram>, Vec<Diagnostic>) {
    let (file, mut found) = parse(text);
    let (program, more) = compile(&file);
    found.extend(more);
    found.sort_by_key(|d| (d.span.start, d.span.end, d.severity));
    found.dedup();
    (program.filter(|_| !has_errors(&found)), found)
}

/// Evaluates every part of a file over the rows of its program.
pub fn explain(file: &RuleFile, program: &HostProgram, history: &History) -> Explanation {
    let counters: Vec<Counter> = program.counters.iter().map(|c| Counter::Host(*c)).collect();
    explain_file(file, &counters, &Machine::default(), history)
}
