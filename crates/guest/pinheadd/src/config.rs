//! Conversion of a rules file into a program for the daemon.

use crate::log::Log;
use crate::plug::Cpus;
use base::{Kib, chain};
use model::counters::{Counter, CpuField};
use procfs::{Reader, Root};
use rules::{Fault, FaultKind, Machine, Program, Severity};
use std::io::Read;
use std::path::Path;

/// Purposes for which the daemon needs more counters than the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extras {
    /// The status for the host.
    pub status: bool,
    /// The display of each interval.
    pub intervals: bool,
}

/// A program with all counters that the rules and the daemon need.
#[derive(Debug)]
pub struct Loaded {
    pub program: Program,
    /// All counters to read. The program's counters come first, in their order.
    pub counters: Vec<Counter>,
    /// Unchanged text of the file, for messages and for the host.
    pub text: Vec<u8>,
}

impl Loaded {
    /// Returns a message about a fault in the rules, with its position, for the log.
    pub fn fault(&self, group: &str, fault: Fault) -> String {
        let (line, column) = rules::line_column(&self.text, fault.span.start);
        let counter = match fault.kind {
            FaultKind::Missing { slot, age } => {
                self.counters.get(slot).map_or(String::new(), |c| format!(" ({c}[{age}])"))
            }
            _ => String::new(),
        };
        format!("{fault}{counter} at line {line}, column {column}: skipping {group} rules")
    }
}

/// Reasons why a rules file was rejected.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused(pub Vec<String>);

/// Reads and compiles a rules file for this machine.
pub fn load(
    path: &Path,
    root: &Root,
    pool: bool,
    extras: Extras,
    log: &Log,
) -> Result<Loaded, Refused> {
    let refused = |message: String| Refused(vec![message]);
    let text = read(path).map_err(|e| {
        refused(format!("Opening configuration file failed: {}: {e}", path.display()))
    })?;
    let machine = machine(root, pool).map_err(refused)?;
    let (file, mut found) = rules::parse(&text);
    let (program, more) = rules::compile(&file, &machine);
    found.extend(more);

    let name = path.display().to_string();
    let lines = |severity| {
        let of = found.iter().filter(move |d| d.severity == severity);
        of.map(|d| rules::one_line(&name, &text, d)).collect::<Vec<String>>()
    };
    let errors = lines(Severity::Error);
    let program = match program {
        Some(program) if errors.is_empty() => program,
        _ => return Err(Refused(errors)),
    };
    for diagnostic in found.iter().filter(|d| d.severity == Severity::Warning) {
        let line = rules::one_line(&name, &text, diagnostic);
        match diagnostic.code {
            // Every user needs to know that a group of rules is off. Other messages are logged only
            // with -V.
            "group-off" | "no-pool" => log.info(line),
            _ => log.debug(line),
        }
    }
    let counters = with_extras(&program, extras, &machine);
    Ok(Loaded { program, counters, text })
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    // One byte more than the limit is read, so that the parser detects a file that is too long.
    std::fs::File::open(path)?.take(rules::MAX_FILE as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

fn machine(root: &Root, pool: bool) -> Result<Machine, String> {
    let names = procfs::kernel_names(root).map_err(|e| chain(&e))?;
    let usable = Cpus::new(root).usable().map_err(|e| chain(&e))?;
    let mut total = [f64::NAN];
    let memory = Reader::open(root, &[Counter::meminfo("MemTotal")])
        .and_then(|mut reader| reader.read(0.0, &mut total))
        .is_ok()
        .then_some(Kib(total[0] as u64));
    let cpus_usable = Some(usable.len() as u32);
    Ok(Machine { names: Some(names), cpus_usable, memory, pool: Some(pool) })
}

fn with_extras(program: &Program, extras: Extras, machine: &Machine) -> Vec<Counter> {
    let mut all = program.counters.clone();
    let mut want = |counter: Counter| {
        let there = match (&counter, &machine.names) {
            (Counter::Vmstat(name), Some(names)) => names.has_vmstat(name),
            (Counter::Meminfo(name), Some(names)) => names.has_meminfo(name),
            _ => true,
        };
        if there && !all.contains(&counter) {
            all.push(counter);
        }
    };
    if program.cpu.is_some() {
        want(Counter::OnlineCpus);
    }
    if extras.status {
        for field in CpuField::ALL {
            want(Counter::Cpu(*field));
        }
        for name in ["MemTotal", "MemFree", "MemAvailable"] {
            want(Counter::meminfo(name));
        }
        for name in BALLOON {
            want(Counter::vmstat(name));
        }
        want(Counter::OnlineCpus);
    }
    if extras.intervals {
        for field in CpuField::ALL {
            want(Counter::Cpu(*field));
        }
        for name in ["pswpin", "pswpout", "pgpgin", "pgpgout"] {
            want(Counter::vmstat(name));
        }
        want(Counter::meminfo("MemFree"));
        want(Counter::Time);
        want(Counter::LoadAvg);
        want(Counter::RunnableProc);
        want(Counter::OnlineCpus);
    }
    all
}

/// Names of the kernel's counters of the pages that entered and left the balloon.
pub const BALLOON: [&str; 2] = ["balloon_inflate", "balloon_deflate"];
