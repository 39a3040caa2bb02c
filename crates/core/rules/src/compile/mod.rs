//! Compilation of trees to flat code. Types are checked, and counters get numbers.
//!
//! ```text
//!   RuleFile ─► here (what is on, the bounds) ─► emit (steps, types) ─► load (counters)
//! ```

mod emit;
mod host;
mod load;

use crate::ast::Expr;
use crate::diag::{Diagnostic, Severity, Span, has_errors};
use crate::file::{Name, RuleFile, RuleText};
use crate::program::{Code, CpuRules, MemoryRules, Program};
use base::PAGE_KIB;
use emit::{Compiler, MAX_OPS, Want};
use model::counters::Counter;
use std::cmp::Reverse;

pub use emit::Machine;
pub use host::host_program;

/// Compiles a file for a machine. Returns a program only if no error is found.
pub fn compile(file: &RuleFile, machine: &Machine) -> (Option<Program>, Vec<Diagnostic>) {
    let mut compiler = Compiler::new(file, machine, Vec::new());
    let program = compiler.program();
    finished(program, compiler.found)
}

/// Sorts the diagnostics, and keeps the program only if none of them is an error.
fn finished<T>(program: Option<T>, mut found: Vec<Diagnostic>) -> (Option<T>, Vec<Diagnostic>) {
    // If one group has a warning at a position where another group has an error, only the error
    // remains.
    found.sort_by_key(|d| (d.span.start, d.span.end, Reverse(d.severity)));
    found.dedup_by(|later, first| later.span == first.span && later.message == first.message);
    once_a_name(&mut found);
    (program.filter(|_| !has_errors(&found)), found)
}

/// Keeps one warning for each retired counter, at its first position, because a rule names the
/// counter once for each past interval that it uses.
fn once_a_name(found: &mut Vec<Diagnostic>) {
    let mut told = Vec::new();
    found.retain(|d| {
        let again = d.code == load::RETIRED && told.contains(&d.message);
        if d.code == load::RETIRED && !again {
            told.push(d.message.clone());
        }
        !again
    });
}

/// A piece of a rule, compiled on its own.
pub(crate) struct Part {
    pub(crate) code: Code,
    /// True if it yields a truth value and not a number.
    pub(crate) is_truth: bool,
}

/// Compiles one expression of a file against the counters of its program, to show the value of a
/// part of a rule. `None` if the part needs another counter.
pub(crate) fn part(
    file: &RuleFile,
    counters: &[Counter],
    machine: &Machine,
    expr: &Expr,
) -> Option<Part> {
    let known = counters.len();
    let mut compiler = Compiler::new(file, machine, counters.to_vec());
    let is_truth = compiler.is_truth(expr);
    let code = compiler.code(expr, if is_truth { Want::Truth } else { Want::Number });
    let usable = compiler.counters.len() == known && !has_errors(&compiler.found);
    usable.then_some(Part { code, is_truth })
}

impl Compiler<'_> {
    fn program(&mut self) -> Option<Program> {
        let at = Span::new(0, 1);
        let update = self.file.setting(Name::Update);
        if update.is_none() && !self.file.is_unread(Name::Update) {
            let error = Diagnostic::error("update", at, "UPDATE is not set")
                .help("write UPDATE=\"1\" to evaluate the rules once a second");
            self.found.push(error);
        }
        let (cpu_on, memory_on) = (self.cpu_on(), self.memory_on());
        // A group that is off because of an unreadable value already has an error, and gets no
        // warning.
        let off = self.found.iter().filter(|d| d.severity == Severity::Warning).count();
        if !cpu_on && !memory_on && off > 1 {
            let message = "Settings are missing: neither CPUs nor memory would be managed";
            self.found.push(Diagnostic::error("nothing-to-do", at, message));
        }
        let cpu = self.group(cpu_on, Self::cpu);
        let memory = self.group(memory_on, Self::memory);
        let intervals = usize::from(self.file.history).max(self.deepest);
        let update = update.filter(|_| cpu_on || memory_on)?.value;
        Some(Program {
            update,
            counters: std::mem::take(&mut self.counters),
            intervals,
            cpu,
            memory,
        })
    }

    /// Compiles a group. A group that is off is checked, too, but its counters are not read.
    fn group<T>(&mut self, on: bool, compile: fn(&mut Self) -> Option<T>) -> Option<T> {
        let (counters, deepest, before) = (self.counters.clone(), self.deepest, self.found.len());
        let group = compile(self);
        if on {
            return group;
        }
        (self.counters, self.deepest) = (counters, deepest);
        for found in &mut self.found[before..] {
            if found.code == "unknown-counter" {
                found.severity = Severity::Warning;
            }
        }
        None
    }

    fn missing(&mut self, group: &str, names: &[Name]) -> bool {
        let is_missing =
            |n: &&Name| self.file.setting(**n).is_none() && self.file.rule(**n).is_none();
        let mut missing: Vec<&str> = Vec::new();
        let mut is_off = false;
        for name in names.iter().filter(is_missing) {
            is_off = true;
            if !self.file.is_unread(*name) {
                missing.push(name.name());
            }
        }
        if missing.is_empty() {
            return is_off;
        }
        let verb = if missing.len() == 1 { "is" } else { "are" };
        let message = format!("{group} management is off: {} {verb} not set", missing.join(", "));
        self.found.push(Diagnostic::warning("group-off", Span::new(0, 1), message));
        true
    }

    fn cpu_on(&mut self) -> bool {
        use Name::{CpuMax, CpuMin, Hotplug, Hotunplug};
        let on = !self.missing("CPU", &[CpuMin, CpuMax, Hotplug, Hotunplug]);
        let (Some(min), Some(max)) = (self.file.setting(CpuMin), self.file.setting(CpuMax)) else {
            return false;
        };
        if min.value > u64::from(u32::MAX) {
            let error = Diagnostic::error("number", min.span, "No machine has so many CPUs");
            self.found.push(error);
        }
        if max.value != 0 && max.value < min.value {
            let message = format!("CPU_MAX {} is below CPU_MIN {}", max.value, min.value);
            let error = Diagnostic::error("cpu-bounds", max.span, message)
                .help("CPU_MAX=\"0\" means all CPUs that can be online");
            self.found.push(error);
        }
        if let Some(usable) = self.machine.cpus_usable.filter(|_| on)
            && u64::from(usable) < min.value
        {
            let cpus = if usable == 1 { "CPU" } else { "CPUs" };
            let message =
                format!("CPU_MIN is {}, but only {usable} {cpus} can be online", min.value);
            let error = Diagnostic::error("cpu-bounds", min.span, message)
                .help("`lscpu -e` lists the CPUs; `chcpu --configure` adds those not configured");
            self.found.push(error);
        }
        on
    }

    fn memory_on(&mut self) -> bool {
        use Name::{CmmInc, CmmMax, CmmMin, Memplug, Memunplug};
        let on = !self.missing("Memory", &[CmmMin, CmmMax, CmmInc, Memplug, Memunplug]);
        let (Some(min), Some(max)) = (self.file.setting(CmmMin), self.file.setting(CmmMax)) else {
            return false;
        };
        if self.machine.pool == Some(false) {
            let message = "Memory management is off: this guest has no pool to give memory to";
            let at = Span::new(0, 1);
            self.found.push(Diagnostic::warning("no-pool", at, message));
            return false;
        }
        if max.value < min.value {
            let message = format!(
                "Memory management is off: CMM_MAX {} is below CMM_MIN {}",
                max.value, min.value
            );
            self.found.push(Diagnostic::warning("group-off", max.span, message));
            return false;
        }
        if let Some(memory) = self.machine.memory.filter(|_| on)
            && max.value > memory.pages().0
        {
            let message = format!(
                "CMM_MAX is {} pages ({} MiB), more than the {} MiB that this guest has",
                max.value,
                max.value / (1024 / PAGE_KIB),
                memory.0 / 1024
            );
            let help = "only the rules limit the pool then; usual is the memory minus 256 MiB";
            self.found.push(Diagnostic::warning("cmm-max", max.span, message).help(help));
        }
        on
    }

    fn cpu(&mut self) -> Option<CpuRules> {
        let hotplug = self.rule(Name::Hotplug, Want::Truth);
        let hotunplug = self.rule(Name::Hotunplug, Want::Truth);
        // A maximum above the number of CPUs of any machine means no maximum, as in the original.
        let bound = |name| self.file.setting(name).map(|s| s.value.min(u32::MAX.into()) as u32);
        let (min, max) = (bound(Name::CpuMin)?, bound(Name::CpuMax)?);
        Some(CpuRules { min, max, hotplug: hotplug?, hotunplug: hotunplug? })
    }

    fn memory(&mut self) -> Option<MemoryRules> {
        let memplug = self.rule(Name::Memplug, Want::Truth);
        let memunplug = self.rule(Name::Memunplug, Want::Truth);
        let inc = self.rule(Name::CmmInc, Want::Number);
        let dec = self.rule(Name::CmmDec, Want::Number);
        let bound = |name| self.file.setting(name).map(|s| s.value);
        let (min, max) = (bound(Name::CmmMin)?, bound(Name::CmmMax)?);
        Some(MemoryRules { min, max, memplug: memplug?, memunplug: memunplug?, inc: inc?, dec })
    }

    fn rule(&mut self, name: Name, want: Want) -> Option<Code> {
        let RuleText { expr, name: span } = self.file.rule(name)?;
        let code = self.code(expr, want);
        if code.ops.len() > MAX_OPS || self.visited > MAX_OPS {
            let message = format!("{} needs more than {MAX_OPS} steps", name.name());
            let error = Diagnostic::error("too-large", *span, message)
                .help("use fewer variables: each use of a variable copies all its steps");
            self.found.push(error);
        }
        Some(code)
    }
}
