//! `pinhead conform`: repeats decisions that were recorded from the original daemon, and compares
//! the results.
//!
//! Each line is a scenario as JSON: a rules file, a machine, and a list of samples. A sample has
//! the texts of the kernel's files, and the CPUs and the pool after the decision. The texts go
//! through the daemon's own readers, compiler and step.

use crate::{Error, RulesError};
use base::Pages;
use model::counters::History;
use policy::guest::{self, CpuAction, Cpus, Resources};
use procfs::{Reader, Texts, names_of};
use rules::{Machine, Program, Severity};
use serde::Deserialize;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Maximum length of a difference that is shown, in characters.
const DIFFERENCE_MAX: usize = 2000;

/// Maximum length of a line, in bytes. The longest recorded scenario has 18 KB.
const LINE_MAX: u64 = 1 << 20;
/// Maximum length of an unpacked text, in bytes. A packed file of a few hundred KiB may unpack
/// without end.
const TEXT_MAX: u64 = 256 << 20;

#[derive(Debug, Deserialize)]
struct Scenario {
    id: String,
    config: String,
    cpus_present: u32,
    cpus_online: u32,
    cmm_pages: u64,
    snapshots: Vec<Snapshot>,
    expect: Option<Vec<State>>,
    #[serde(default)]
    refuse: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Snapshot {
    time: f64,
    stat: String,
    loadavg: String,
    meminfo: String,
    vmstat: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
struct State {
    online: u32,
    cmm_pages: u64,
}

/// Results of a file of scenarios.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of scenarios with the recorded decisions.
    pub agree: usize,
    /// Number of scenarios in the file.
    pub total: usize,
    /// A paragraph for each scenario that differs.
    pub differences: Vec<String>,
}

/// A difference between a decision and the recorded decision.
#[derive(Debug, thiserror::Error)]
enum Difference {
    #[error("pinhead refuses the rules, but cpuplugd runs them")]
    Refused(#[source] Refused),
    #[error("pinhead accepts the rules, but must refuse them: {reason}")]
    Accepted { reason: String },
    #[error("snapshot {index}")]
    Unread { index: usize, source: procfs::Error },
    #[error("snapshot {index}: expected {expected:?}, decided {decided:?}")]
    Decided { index: usize, expected: State, decided: State },
}

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("it has no snapshot")]
    NoSnapshot,
    #[error(transparent)]
    Kernel(#[from] procfs::Error),
    /// All errors of the rules, on one line.
    #[error("{0}")]
    Rules(String),
}

/// Runs all scenarios of a file; a gzip file is unpacked.
pub fn run(path: &Path) -> Result<Report, Error> {
    let file = std::fs::File::open(path).map_err(|e| Error::read(path, e))?;
    let mut reader = BufReader::new(file);
    let packed = reader.fill_buf().map_err(|e| Error::read(path, e))?.starts_with(&[0x1f, 0x8b]);
    let unpacked: Box<dyn Read> =
        if packed { Box::new(flate2::read::MultiGzDecoder::new(reader)) } else { Box::new(reader) };
    scenarios(unpacked, path)
}

/// Runs all scenarios of a text. `path` names the text's file in messages.
pub fn scenarios(text: impl Read, path: &Path) -> Result<Report, Error> {
    let mut reader = BufReader::new(text.take(TEXT_MAX + 1));
    let mut report = Report::default();
    let (mut line, mut number, mut bytes) = (Vec::new(), 0, 0);
    loop {
        line.clear();
        let most = LINE_MAX + 1;
        let count = reader.by_ref().take(most).read_until(b'\n', &mut line);
        let count = count.map_err(|e| Error::read(path, e))? as u64;
        number += 1;
        bytes += count;
        let wrong =
            |column, message| Error::Line { path: path.into(), line: number, column, message };
        if bytes > TEXT_MAX {
            let message = format!("The scenarios have more than {} MiB, unpacked", TEXT_MAX >> 20);
            return Err(wrong(1, message));
        }
        if count == most {
            let message =
                format!("The line of a scenario must have at most {} MiB", LINE_MAX >> 20);
            return Err(wrong(1, message));
        }
        if count == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let scenario: Scenario = serde_json::from_slice(&line)
            .map_err(|e| wrong(e.column(), format!("This is not a scenario: {e}")))?;
        report.total += 1;
        match scenario.run() {
            Ok(()) => report.agree += 1,
            Err(difference) => {
                let line = format!("{}: {}", scenario.id, base::chain(&difference));
                report.differences.push(base::plain(&line, DIFFERENCE_MAX));
            }
        }
    }
    if report.total == 0 {
        return Err(RulesError::NoScenario { path: path.into() }.into());
    }
    Ok(report)
}

impl Scenario {
    fn run(&self) -> Result<(), Difference> {
        match (self.compile(), &self.expect) {
            (Err(_), None) => Ok(()),
            (Err(refused), Some(_)) => Err(Difference::Refused(refused)),
            (Ok(_), None) => {
                let reason = self.refuse.as_deref().unwrap_or("no reason given").to_owned();
                Err(Difference::Accepted { reason })
            }
            (Ok(program), Some(expect)) => self.decide(&program, expect),
        }
    }

    fn compile(&self) -> Result<Program, Refused> {
        let first = self.snapshots.first().ok_or(Refused::NoSnapshot)?;
        let names = names_of(&mut first.texts(self.cpus_online))?;
        let machine = Machine {
            names: Some(names),
            cpus_usable: Some(self.cpus_present),
            ..Machine::default()
        };
        let text = self.config.as_bytes();
        let (file, mut found) = rules::parse(text);
        let (program, more) = rules::compile(&file, &machine);
        found.extend(more);
        found.retain(|d| d.severity == Severity::Error);
        match program {
            Some(program) if found.is_empty() => Ok(program),
            _ => {
                let lines: Vec<String> =
                    found.iter().map(|d| rules::one_line("config", text, d)).collect();
                Err(Refused::Rules(lines.join("; ")))
            }
        }
    }

    fn decide(&self, program: &Program, expect: &[State]) -> Result<(), Difference> {
        let mut state = State { online: self.cpus_online, cmm_pages: self.cmm_pages };
        let start = guest::start(program, self.resources(state));
        state.online = start.cpus.unwrap_or(state.online);
        state.cmm_pages = start.pool.map_or(state.cmm_pages, |pages| pages.0);

        let mut history = History::new(program.counters.len(), program.intervals);
        let mut reader: Option<Reader<Texts<'_>>> = None;
        for (index, snapshot) in self.snapshots.iter().enumerate() {
            let texts = snapshot.texts(state.online);
            let at = |source| Difference::Unread { index, source };
            let reader = match &mut reader {
                Some(reader) => {
                    *reader.source_mut() = texts;
                    reader
                }
                none => none.insert(Reader::with_source(texts, &program.counters).map_err(at)?),
            };
            reader.read(snapshot.time, history.advance()).map_err(at)?;
            if history.is_full() {
                state = self.step(program, &history, state);
            }
            if let Some(&expected) = expect.get(index)
                && expected != state
            {
                return Err(Difference::Decided { index, expected, decided: state });
            }
        }
        Ok(())
    }

    fn resources(&self, state: State) -> Resources {
        Resources {
            cpus: Some(Cpus { online: state.online, present: self.cpus_present }),
            pool: Some(Pages(state.cmm_pages)),
        }
    }

    fn step(&self, program: &Program, history: &History, state: State) -> State {
        let decision = guest::step(program, history, self.resources(state));
        let online = match decision.cpu {
            Some(Ok(cpu)) => match cpu.action {
                CpuAction::Plug => state.online + 1,
                CpuAction::Unplug => state.online - 1,
                CpuAction::Hold => state.online,
            },
            _ => state.online,
        };
        let cmm_pages = match decision.memory {
            Some(Ok(memory)) => memory.target.0,
            _ => state.cmm_pages,
        };
        State { online, cmm_pages }
    }
}

impl Snapshot {
    fn texts(&self, online: u32) -> Texts<'_> {
        Texts::new(&self.stat, &self.loadavg, &self.meminfo, &self.vmstat, online)
    }
}
