//! The kernel's page sharing (KSM): read, driven, and put back as it was found.
//!
//! ```text
//!   /sys/kernel/mm/ksm/*, ksmd's CPU time ─► policy::ksm::Ksm::step ─► run, pages_to_scan, ...
//!                     what was found at the start ─► Saved ─► the keeper, or put back at the end
//! ```
//!
//! What to do is decided in [`policy::ksm`]. Here are the files, and the manners: somebody else
//! who changes the settings while we drive them is left alone from then on.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use counters::{Bytes, Pages};
use policy::ksm::{Counters, Phase, Sample, Settings};
use serde::{Deserialize, Serialize};

use crate::config::KsmMode;

/// Where the files are, below the root.
const DIR: &str = "sys/kernel/mm/ksm";
/// The files that are changed, in the order in which they are written: the advisor of newer
/// kernels refuses a number of pages while it chooses the number itself, so it goes first.
const DRIVEN: [&str; 4] = ["advisor_mode", "pages_to_scan", "sleep_millisecs", "run"];
/// Texts of these files are numbers, or a few words.
const TEXT_MAX: u64 = 256;
/// Processes looked at for ksmd. A kernel's threads are among its first processes.
const SEARCHED_MAX: usize = 20_000;
/// Microseconds in a tick of /proc/PID/stat: a hundred a second, for every architecture.
const TICK_US: u64 = 10_000;

/// The settings as they were found, in the order in which they are put back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved(Vec<(String, String)>);

impl Saved {
    /// Writes them back; gives the files that could not be written, with their reasons.
    pub fn put_back(&self, root: &Path) -> Vec<(PathBuf, io::Error)> {
        // It may have come through a pipe: nothing but the files we change is written.
        let ours = self.0.iter().filter(|(name, _)| DRIVEN.contains(&name.as_str()));
        let written = ours.map(|(name, text)| {
            let path = root.join(DIR).join(name);
            fs::write(&path, text).map_err(|error| (path, error))
        });
        written.filter_map(Result::err).collect()
    }
}

/// What there is to say about KSM in `ps` and `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Whether we drive it.
    pub is_driven: bool,
    /// How hard it looks; `None` where we do not drive it.
    pub phase: Option<Phase>,
    /// Whether it scans, as the kernel says.
    pub runs: Option<bool>,
    /// Memory that needs no place of its own any more.
    pub gain: Option<Bytes>,
    /// That without what KSM keeps for itself, where the kernel counts it.
    pub profit_bytes: Option<i64>,
    /// CPU time of its thread over the last seconds, in thousandths of a core.
    pub cost_permille: Option<u64>,
}

/// What the host and its guests are like, for a decision about KSM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// Guests that are there.
    pub guests: usize,
    /// Guests that have ever come.
    pub arrivals: u64,
    /// Free memory of the host.
    pub available: Bytes,
    /// The free memory that the host is to have.
    pub set_point: Bytes,
    /// How far it may be missed.
    pub hysteresis: Bytes,
}

/// KSM of this host.
#[derive(Debug)]
pub struct Ksm {
    root: PathBuf,
    is_driven: bool,
    /// What is to be said, once.
    note: Option<String>,
    saved: Option<Saved>,
    told: Option<Settings>,
    step: policy::ksm::Ksm,
    thread: Option<PathBuf>,
    counters: Counters,
    cost: Option<Span>,
    cost_permille: Option<u64>,
}

/// CPU time at a moment.
#[derive(Clone, Copy, Debug)]
struct Span {
    at_ms: u64,
    cpu_us: u64,
}

/// CPU time is shown over spans of this length.
const COST_MS: u64 = 10_000;

impl Ksm {
    /// Looks at what is there, below a root that is `/` but for tests. Nothing is changed but by
    /// the mode `off`, which stops the kernel's search at once.
    pub fn open(root: &Path, mode: KsmMode) -> Ksm {
        let mut ksm = Ksm {
            root: root.to_path_buf(),
            is_driven: false,
            note: None,
            saved: None,
            told: None,
            step: policy::ksm::Ksm::new(),
            thread: find_thread(root),
            counters: Counters::default(),
            cost: None,
            cost_permille: None,
        };
        if mode == KsmMode::Leave {
            return ksm;
        }
        let Some(saved) = ksm.read_settings() else {
            ksm.note = Some(
                "This kernel has no KSM (/sys/kernel/mm/ksm is not there): equal pages of guests \
                 are not shared"
                    .to_owned(),
            );
            return ksm;
        };
        if let Err(error) = ksm.check_writable() {
            let dir = ksm.root.join(DIR);
            ksm.note = Some(format!("KSM is left as it is: {} ({error})", dir.display()));
            return ksm;
        }
        ksm.saved = Some(saved);
        if mode == KsmMode::Off {
            ksm.write("run", "0");
        } else {
            ksm.write("advisor_mode", "none");
            ksm.is_driven = ksm.note.is_none();
        }
        ksm
    }

    /// What was found at the start, if anything of it may have been changed since.
    pub fn saved(&self) -> Option<&Saved> {
        self.saved.as_ref()
    }

    /// What there is to say to the operator, once.
    pub fn take_note(&mut self) -> Option<String> {
        self.note.take()
    }

    /// Reads the counters and tells the kernel what to do. Once a second is often enough.
    pub fn turn(&mut self, around: &Around, now_ms: u64) {
        self.counters = self.read_counters();
        self.count_cost(now_ms);
        if !self.is_driven || self.is_changed_by_another() {
            return;
        }
        let sample = Sample {
            guests: around.guests,
            arrivals: around.arrivals,
            available: around.available,
            set_point: around.set_point,
            hysteresis: around.hysteresis,
            counters: self.counters,
        };
        let Some(settings) = self.step.step(&sample, now_ms) else { return };
        if settings.runs {
            self.write("pages_to_scan", &settings.pages_to_scan.to_string());
            self.write("sleep_millisecs", &settings.sleep_ms.to_string());
        }
        self.write("run", if settings.runs { "1" } else { "0" });
        self.told = Some(settings);
    }

    /// Gain beside cost.
    pub fn status(&self) -> Status {
        let gain = self.counters.pages_sharing.map(Pages::bytes);
        Status {
            is_driven: self.is_driven,
            phase: self.is_driven.then(|| self.step.phase()),
            runs: self.number("run").map(|run| run == 1),
            gain,
            profit_bytes: self.counters.general_profit_bytes,
            cost_permille: self.cost_permille,
        }
    }

    /// Puts everything back as it was found. What somebody else has set since stays.
    pub fn restore(&mut self) -> Vec<(PathBuf, io::Error)> {
        self.is_driven = false;
        self.saved.take().map_or_else(Vec::new, |saved| saved.put_back(&self.root))
    }

    /// If the settings are not those that were written last, another program drives KSM, such as
    /// ksmtuned: then it has it, and what was found at the start is no longer ours to put back.
    fn is_changed_by_another(&mut self) -> bool {
        let Some(told) = self.told else { return false };
        let runs = self.number("run").is_none_or(|run| (run == 1) == told.runs);
        let pages = self.number("pages_to_scan").is_none_or(|pages| pages == told.pages_to_scan);
        if runs && (pages || !told.runs) {
            return false;
        }
        self.is_driven = false;
        self.saved = None;
        self.note = Some(
            "Another program has changed the settings of KSM: it is left to that program. Set \
             `mode = \"leave\"` in [ksm], or stop the other (ksmtuned?)"
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

    fn read_settings(&self) -> Option<Saved> {
        self.number("run")?;
        let read = |name: &&str| {
            let text = self.text(name)?;
            // The advisor shows all modes, with the one that is on in brackets.
            let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            let value = chosen.map_or(text.trim(), |(chosen, _)| chosen);
            Some(((*name).to_owned(), value.to_owned()))
        };
        // An advisor that is switched on chooses the number itself, so it is put back last.
        let mut found: Vec<_> = DRIVEN.iter().filter_map(read).collect();
        if found.first().is_some_and(|(name, value)| name == DRIVEN[0] && value != "none") {
            found.rotate_left(1);
        }
        Some(Saved(found))
    }

    fn check_writable(&self) -> io::Result<()> {
        let path = self.root.join(DIR).join("run");
        File::options().write(true).open(path).map(drop)
    }

    /// A write that fails ends the driving, and is said once.
    fn write(&mut self, name: &str, text: &str) {
        let path = self.root.join(DIR).join(name);
        if name == DRIVEN[0] && !path.exists() {
            return;
        }
        if let Err(error) = fs::write(&path, text) {
            self.is_driven = false;
            self.note = Some(format!("KSM is left as it is: {} ({error})", path.display()));
        }
    }

    fn read_counters(&self) -> Counters {
        Counters {
            pages_shared: self.number("pages_shared").map(Pages),
            pages_sharing: self.number("pages_sharing").map(Pages),
            full_scans: self.number("full_scans"),
            general_profit_bytes: self
                .text("general_profit")
                .and_then(|text| text.trim().parse().ok()),
            cpu_us: self.thread.as_deref().and_then(cpu_us),
        }
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.trim().parse().ok()
    }

    fn text(&self, name: &str) -> Option<String> {
        text(&self.root.join(DIR).join(name))
    }
}

fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(TEXT_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The directory of the kernel's thread of that name. A program can call itself the same, but
/// cannot be a child of kthreadd, which is process 2.
fn find_thread(root: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(root.join("proc")).ok()?;
    let paths = entries.take(SEARCHED_MAX).filter_map(|entry| Some(entry.ok()?.path()));
    paths
        .filter(|path| is_number(path))
        .find(|path| text(&path.join("stat")).is_some_and(|stat| is_ksmd(&stat)))
}

fn is_number(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_ksmd(stat: &str) -> bool {
    let mut words = stat.split_ascii_whitespace();
    words.nth(1) == Some("(ksmd)") && words.nth(1) == Some("2")
}

/// The thread's CPU time: to the nanosecond where the kernel counts that, else in ticks.
fn cpu_us(thread: &Path) -> Option<u64> {
    let exact = text(&thread.join("schedstat"))
        .and_then(|text| hypervisor::parse_schedstat(text.as_bytes()))
        .map(|[run_ns, _]| run_ns / 1000);
    exact.or_else(|| {
        let stat = text(&thread.join("stat"))?;
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        Some(ticks()?.saturating_add(ticks()?).saturating_mul(TICK_US))
    })
}

#[cfg(test)]
mod tests;
