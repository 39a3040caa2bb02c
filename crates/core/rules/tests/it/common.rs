//! Helpers of this crate's tests: from a text to its values and diagnostics.

use model::counters::{Counter, CpuField, History, KernelNames};
use rules::{
    Diagnostic, Machine, Name, Program, Value, compile, explain, has_errors, line_column, parse,
};

/// All settings that both groups need. Tested lines behind these settings overrule them.
pub const REST: &str = "UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\nHOTUNPLUG=\"0\"\n\
                        CMM_MIN=\"0\"\nCMM_MAX=\"1000\"\nMEMPLUG=\"0\"\nMEMUNPLUG=\"0\"\n";

/// Returns a file with the given lines, in which `expression` is HOTPLUG.
pub fn file(lines: &str, expression: &str) -> String {
    format!("{lines}\nHOTPLUG=\"{expression}\"\nCMM_INC=\"0\"\n{REST}")
}

/// Returns the values of a guest's counters, `age` intervals ago. Every interval takes 2 seconds
/// and 400 ticks; memory and events have values that are easy to compute with.
pub fn reading(counter: &Counter, age: usize) -> f64 {
    let grown = |now: f64, by: f64| now - by * age as f64;
    match counter {
        Counter::Time => grown(1000.0, 2.0),
        Counter::OnlineCpus => 4.0,
        Counter::LoadAvg => grown(1.5, 0.25),
        Counter::RunnableProc => 3.0,
        Counter::Cpu(CpuField::User) => grown(9000.0, 100.0),
        Counter::Cpu(CpuField::System) => grown(5000.0, 50.0),
        Counter::Cpu(CpuField::Idle) => grown(60_000.0, 200.0),
        Counter::Cpu(CpuField::Steal) => grown(700.0, 50.0),
        Counter::Cpu(CpuField::TotalTicks) => grown(80_000.0, 400.0),
        Counter::Cpu(_) => 70.0,
        Counter::Meminfo(name) => match &**name {
            "MemTotal" => 1_048_576.0,
            "MemFree" => grown(102_400.0, -1024.0),
            "Active(anon)" => 11.0,
            "DirectMap1M" => 12.0,
            _ => 4096.0,
        },
        Counter::Vmstat(name) => match &**name {
            "pgpgin" => grown(10_000.0, 100.0),
            "pgpgout" => grown(5000.0, 60.0),
            "pswpin" => grown(2000.0, 2.0),
            "pswpout" => grown(1000.0, 4.0),
            "nr_dirty" => [7.0, 3.0, 9.0, 5.0, 6.0][age % 5],
            "pgsteal_kswapd" => grown(900.0, 9.0),
            "pgsteal_direct" => grown(100.0, 1.0),
            _ => 500.0,
        },
        Counter::Psi(..) => grown(12.5, 0.5),
        Counter::Host(_) => f64::NAN,
    }
}

/// Returns a history of the readings of `reading`, as long as the program needs.
pub fn history(program: &Program) -> History {
    let mut history = History::new(program.counters.len(), program.intervals);
    for age in (0..=program.intervals).rev() {
        let row: Vec<f64> = program.counters.iter().map(|c| reading(c, age)).collect();
        history.advance().copy_from_slice(&row);
    }
    history
}

/// Compiles a file for a machine; returns all diagnostics of both passes, in order.
pub fn compiled(text: &str, machine: &Machine) -> (Option<Program>, Vec<Diagnostic>) {
    let (file, mut found) = parse(text.as_bytes());
    let (program, more) = compile(&file, machine);
    found.extend(more);
    found.sort_by_key(|d| (d.span.start, d.span.end));
    found.dedup();
    (program.filter(|_| !has_errors(&found)), found)
}

/// Returns the program of a file that must be correct.
pub fn program(text: &str) -> Program {
    let (program, found) = compiled(text, &Machine::default());
    program.unwrap_or_else(|| panic!("{text}\nis refused: {found:#?}"))
}

/// Formats a diagnostic as `line:column severity[code] underlined text`.
pub fn place(text: &str, diagnostic: &Diagnostic) -> String {
    let (line, column) = line_column(text.as_bytes(), diagnostic.span.start);
    let end = (diagnostic.span.end as usize).min(text.len());
    let piece = &text[(diagnostic.span.start as usize).min(end)..end];
    format!("{line}:{column} {}[{}] {piece}", diagnostic.severity, diagnostic.code)
}

/// Formats all diagnostics.
pub fn places(text: &str, found: &[Diagnostic]) -> Vec<String> {
    found.iter().map(|d| place(text, d)).collect()
}

/// Returns the value of an expression over the values of `reading`. For a refused file, returns the
/// code and the underlined text of the first error.
pub fn value(lines: &str, expression: &str) -> String {
    let text = file(lines, expression);
    let machine = Machine::default();
    let (file, found) = parse(text.as_bytes());
    let (program, more) = compile(&file, &machine);
    let mut all = found.into_iter().chain(more);
    if let Some(error) = all.find(|d| d.severity == rules::Severity::Error) {
        return place(&text, &error).split_once(' ').map_or(String::new(), |(_, w)| w.to_string());
    }
    let program = program.unwrap_or_else(|| panic!("no program and no error:\n{text}"));
    let explanation = explain(&file, &program, &machine, &history(&program));
    let piece = explanation.rules.iter().find(|(name, _)| *name == Name::Hotplug);
    match piece.map(|(_, piece)| piece.value) {
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Truth(truth)) => truth.to_string(),
        Some(Value::Fault(fault)) => fault.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Returns a machine with the counters for which `reading` has a value.
pub fn machine() -> Machine {
    let boxed = |names: &[&str]| names.iter().map(|n| (*n).into()).collect();
    let names = KernelNames {
        meminfo: boxed(&["MemTotal", "MemFree", "Cached", "Shmem", "Active(anon)", "DirectMap1M"]),
        vmstat: boxed(&[
            "nr_dirty",
            "pgpgin",
            "pgpgout",
            "pswpin",
            "pswpout",
            "pgscan_kswapd",
            "pgscan_direct",
            "pgsteal_kswapd",
            "pgsteal_direct",
        ]),
        psi: true,
    };
    Machine { names: Some(names), cpus_usable: Some(4), ..Machine::default() }
}
