//! Compiles the host's rules: each rule separately, all of them optional.

use super::emit::{Compiler, Machine, Want};
use super::finished;
use crate::diag::{Diagnostic, Span};
use crate::file::{FileKind, Name, RuleFile};
use crate::host_program::HostProgram;
use model::counters::Counter;

/// Compiles a host rules file. Returns a program only if no error is found.
pub fn host_program(file: &RuleFile) -> (Option<HostProgram>, Vec<Diagnostic>) {
    let machine = Machine::default();
    let mut compiler = Compiler::new(file, &machine, Vec::new());
    let names = FileKind::Host.names();
    if names.iter().all(|name| file.rule(*name).is_none() && !file.is_unread(*name)) {
        let all: Vec<&str> = names.iter().map(|name| name.name()).collect();
        let message = "The file sets none of the rules that the manager uses";
        let error = Diagnostic::error("nothing-to-do", Span::new(0, 1), message)
            .help(format!("set at least one of {}", all.join(", ")));
        compiler.found.push(error);
    }
    let mut program = HostProgram {
        shrink_guest: compiler.rule(Name::ShrinkGuest, Want::Truth),
        grow_guest: compiler.rule(Name::GrowGuest, Want::Truth),
        may_shrink: compiler.rule(Name::MayShrink, Want::Truth),
        may_grow: compiler.rule(Name::MayGrow, Want::Truth),
        shrink_size: compiler.rule(Name::ShrinkSize, Want::Number),
        grow_size: compiler.rule(Name::GrowSize, Want::Number),
        counters: Vec::new(),
        intervals: compiler.deepest,
    };
    let counters = compiler.counters.iter().filter_map(|counter| match counter {
        Counter::Host(counter) => Some(*counter),
        // The parser of a host's file returns no other counters.
        _ => None,
    });
    program.counters = counters.collect();
    finished(Some(program), compiler.found)
}
