//! The kernel's page sharing (KSM): its counters, its control, and the restoration of its former
//! settings.
//!
//! ```text
//!   /sys/kernel/mm/ksm/*, ksmd's CPU time ─► policy::ksm::Ksm::step ─► run, pages_to_scan, ...
//!                     what was found at the start ─► Saved ─► the keeper, or put back at the end
//! ```
//!
//! Decisions are made in [`policy::ksm`], and this module accesses the files. After another program
//! has changed KSM's settings, the manager no longer changes KSM.

use std::io;
use std::path::{Path, PathBuf};

use base::{Bytes, Pages};
use hypervisor::KsmFiles;
use model::counters::KsmCounters;
use policy::ksm::{Phase, Sample, Settings};
use serde::{Deserialize, Serialize};

use crate::config::KsmMode;
use crate::control::KsmRow;

/// KSM's settings as found at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved(Vec<(String, String)>);

impl Saved {
    /// Restores the settings. Returns the files that could not be written, with the reasons.
    pub fn put_back(&self, root: &Path) -> Vec<(PathBuf, io::Error)> {
        KsmFiles::at(root).put_back(&self.0)
    }
}

/// KSM of this host.
#[derive(Debug)]
pub struct Ksm {
    files: KsmFiles,
    is_driven: bool,
    /// A message to the operator, reported once.
    note: Option<String>,
    /// True once a stop of KSM because of several users was reported.
    is_apart_told: bool,
    saved: Option<Saved>,
    written: Option<Settings>,
    step: policy::ksm::Ksm,
    counters: KsmCounters,
    cost: Option<Span>,
    cost_permille: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    at_ms: u64,
    cpu_us: u64,
}

/// Length of the spans over which CPU time is shown.
const COST_MS: u64 = 10_000;

impl Ksm {
    /// Opens KSM below `root`, which is `/` except in tests. Mode `off` stops the kernel's scan at
    /// once. Mode `auto` at first only switches off the kernel's own advisor.
    pub fn open(root: &Path, mode: KsmMode) -> Ksm {
        let mut ksm = Ksm {
            files: KsmFiles::at(root),
            is_driven: false,
            note: None,
            is_apart_told: false,
            saved: None,
            written: None,
            step: policy::ksm::Ksm::new(),
            counters: KsmCounters::default(),
            cost: None,
            cost_permille: None,
        };
        if mode == KsmMode::Leave {
            return ksm;
        }
        if ksm.files.run().is_none() {
            ksm.note = Some(
                "This kernel has no KSM (/sys/kernel/mm/ksm does not exist): equal pages of guests \
                 are not shared"
                    .to_owned(),
            );
            return ksm;
        };
        if let Err(error) = ksm.files.check_writable() {
            let dir = ksm.files.dir();
            ksm.note =
                Some(format!("KSM is not changed: cannot write to {} ({error})", dir.display()));
            return ksm;
        }
        ksm.saved = Some(Saved(ksm.files.settings()));
        if mode == KsmMode::Off {
            ksm.write("run", "0");
        } else {
            if ksm.files.is_advised() {
                let (name, text) = KsmFiles::no_advice();
                ksm.write(&name, &text);
            }
            ksm.is_driven = ksm.note.is_none();
        }
        ksm
    }

    /// Returns the settings found at the start, if this process may have changed them.
    pub fn saved(&self) -> Option<&Saved> {
        self.saved.as_ref()
    }

    /// Returns the message to the operator, once.
    pub fn take_note(&mut self) -> Option<String> {
        self.note.take()
    }

    /// Reads the counters. Called at most once a second.
    pub fn read(&mut self, now_ms: u64) -> KsmCounters {
        self.counters = self.files.counters();
        self.count_cost(now_ms);
        self.counters
    }

    /// Writes the kernel's settings, if the manager drives KSM.
    pub fn drive(&mut self, sample: &Sample, now_ms: u64) {
        if !self.is_driven || self.is_changed_by_another() {
            return;
        }
        let settings = self.step.step(sample, now_ms);
        if self.step.phase() == Phase::Apart && !std::mem::replace(&mut self.is_apart_told, true) {
            self.note = Some(format!(
                "KSM is stopped while guests of {} users run: equal pages of different users' \
                 guests must not be shared. Pages that are shared already stay shared until they \
                 are written",
                sample.owners
            ));
        }
        let Some(settings) = settings else { return };
        if settings.runs {
            self.write("pages_to_scan", &settings.pages_to_scan.to_string());
            self.write("sleep_millisecs", &settings.sleep_ms.to_string());
        }
        self.write("run", if settings.runs { "1" } else { "0" });
        self.written = Some(settings);
    }

    pub(crate) fn gain(&self) -> Option<Bytes> {
        self.counters.pages_sharing.map(Pages::bytes)
    }

    /// Returns gain and cost, for `ps` and `status`.
    pub fn row(&self) -> KsmRow {
        KsmRow {
            driven: self.is_driven,
            phase: self.is_driven.then(|| self.step.phase()),
            runs: self.files.run().map(|run| run == 1),
            gain_bytes: self.gain().map(|gain| gain.0),
            profit_bytes: self.counters.general_profit_bytes,
            cost_percent: self.cost_permille.map(|permille| permille as f64 / 10.0),
        }
    }

    /// Restores the settings found at the start, unless another program has changed KSM since.
    pub fn restore(&mut self) -> Vec<(PathBuf, io::Error)> {
        self.is_driven = false;
        self.saved.take().map_or_else(Vec::new, |saved| self.files.put_back(&saved.0))
    }

    /// Returns true if another program, such as ksmtuned, has changed the settings written last.
    /// KSM is then left to that program, and the settings found at the start are no longer
    /// restored.
    fn is_changed_by_another(&mut self) -> bool {
        let Some(written) = self.written else { return false };
        let runs = self.files.run().is_none_or(|run| (run == 1) == written.runs);
        let pages = self.files.number("pages_to_scan");
        let pages = pages.is_none_or(|pages| pages == written.pages_to_scan);
        if runs && (pages || !written.runs) {
            return false;
        }
        self.is_driven = false;
        self.saved = None;
        self.note = Some(
            "Another program has changed the settings of KSM, so this manager does not control KSM \
             any more. Set `mode = \"leave\"` in [ksm], or stop the other program (ksmtuned?)"
                .to_owned(),
        );
        true
    }

    fn count_cost(&mut self, now_ms: u64) {
        let Some(cpu_us) = self.counters.cpu_us else { return };
        let now = Span { at_ms: now_ms, cpu_us };
        let before = *self.cost.get_or_insert(now);
        let passed_ms = now_ms.saturating_sub(before.at_ms);
        if passed_ms >= COST_MS {
            self.cost_permille = cpu_us.checked_sub(before.cpu_us).map(|us| us / passed_ms);
            self.cost = Some(now);
        }
    }

    /// Writes a file. After a failure, the manager no longer drives KSM. The failure is reported
    /// once.
    fn write(&mut self, name: &str, text: &str) {
        if let Err(error) = self.files.write(name, text) {
            self.is_driven = false;
            let path = self.files.dir().join(name);
            self.note =
                Some(format!("KSM is not changed: cannot write {} ({error})", path.display()));
        }
    }
}

#[cfg(test)]
mod tests;
