//! Rules of the host's manager: the same expressions, over what it knows of a guest and of
//! the host.
//!
//! ```text
//!   bytes ─► parse ─► RuleFile ─► compile ─► HostProgram
//!   a row for each pass and guest ─► History ─► evaluate ─► HostWords ─► the arbiter
//! ```
//!
//! A host's rules replace or guard parts of the arbiter, and every one of them may be left
//! out. The additions to the language are always there: no other daemon reads such a file.

use crate::compile::{Machine, host_program};
use crate::diag::{Diagnostic, has_errors};
use crate::explain::{Explanation, explain_file};
use crate::file::reader::{names_set, read_as};
use crate::file::{FileKind, RuleFile};
use crate::program::{Code, Fault, FaultKind, is_true};
use counters::{Counter, History, HostCounter};

/// A compiled rules file of the host's manager.
#[derive(Clone, Debug, PartialEq)]
pub struct HostProgram {
    /// The numbers that a row of the history holds, in slot order.
    pub counters: Vec<HostCounter>,
    /// How many passes the rules look back; 0 where they use no history.
    pub intervals: usize,
    pub(crate) shrink_guest: Option<Code>,
    pub(crate) grow_guest: Option<Code>,
    pub(crate) may_shrink: Option<Code>,
    pub(crate) may_grow: Option<Code>,
    pub(crate) shrink_size: Option<Code>,
    pub(crate) grow_size: Option<Code>,
}

/// What the rules say of one guest in one pass. `None` where the file has no such rule; a
/// fault where the rule has no value now, which is no reason to do anything.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostWords {
    /// Whether the guest is to give memory.
    pub shrink_guest: Option<Result<bool, Fault>>,
    /// Whether it needs memory.
    pub grow_guest: Option<Result<bool, Fault>>,
    /// False: it is not to give memory now.
    pub may_shrink: Option<Result<bool, Fault>>,
    /// False: it is not to get memory now.
    pub may_grow: Option<Result<bool, Fault>>,
    /// The size of a step down, cut to whole MiB; a negative one counts as 0.
    pub shrink_mib: Option<Result<i64, Fault>>,
    /// The size of a step up, cut to whole MiB; a negative one counts as 0.
    pub grow_mib: Option<Result<i64, Fault>>,
}

/// Which kind of rules file a text is, by the names that it sets. A file that could run as
/// a guest's is one, whatever else it sets.
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

/// Reads a host's rules file, as [`crate::parse`] reads a guest's.
pub fn parse(text: &[u8]) -> (RuleFile, Vec<Diagnostic>) {
    read_as(Some(|parser, word, start| parser.host_name(word, start)), text)
}

/// Compiles a host's rules file. There is a program only where no error is found.
pub fn compile(file: &RuleFile) -> (Option<HostProgram>, Vec<Diagnostic>) {
    host_program(file)
}

/// Reads and compiles a text; all that is to say of it, in its order. There is a program
/// only where none of that is an error.
pub fn load(text: &[u8]) -> (Option<HostProgram>, Vec<Diagnostic>) {
    let (file, mut found) = parse(text);
    let (program, more) = compile(&file);
    found.extend(more);
    found.sort_by_key(|d| (d.span.start, d.span.end, d.severity));
    found.dedup();
    (program.filter(|_| !has_errors(&found)), found)
}

/// Evaluates every piece of a file over the rows that its program was given.
pub fn explain(file: &RuleFile, program: &HostProgram, history: &History) -> Explanation {
    let counters: Vec<Counter> = program.counters.iter().map(|c| Counter::Host(*c)).collect();
    explain_file(file, &counters, &Machine::default(), history)
}

impl HostProgram {
    /// What the rules say over the rows of one guest, the newest of which is this pass.
    pub fn evaluate(&self, history: &History) -> HostWords {
        let truth = |code: &Option<Code>| Some(code.as_ref()?.run(history).map(is_true));
        let size = |code: &Option<Code>| Some(code.as_ref()?.whole(history));
        HostWords {
            shrink_guest: truth(&self.shrink_guest),
            grow_guest: truth(&self.grow_guest),
            may_shrink: truth(&self.may_shrink),
            may_grow: truth(&self.may_grow),
            shrink_mib: size(&self.shrink_size),
            grow_mib: size(&self.grow_size),
        }
    }

    /// Whether any rule says of whom nothing is taken.
    pub fn guards(&self) -> bool {
        self.may_shrink.is_some() || self.shrink_guest.is_some()
    }

    /// A ring that holds as many rows of this program's counters as its rules look back to.
    pub fn history(&self) -> History {
        History::new(self.counters.len(), self.intervals)
    }

    /// Why a rule has no value, with the name of a counter that is missing.
    pub fn reason(&self, fault: &Fault) -> String {
        let FaultKind::Missing { slot, age } = fault.kind else { return fault.to_string() };
        let name = self.counters.get(slot).map_or("A counter", |counter| counter.name());
        match age {
            0 => format!("{name} is not known now"),
            1 => format!("{name} was not known one pass ago"),
            _ => format!("{name} was not known {age} passes ago"),
        }
    }
}
