//! Findings in a recording, ranked by their gain, each with its evidence and its command.
//!
//! ```text
//!   Past, Advice ─┐
//!   Habits ───────┼─► each kind of finding ─► worth doing? ─► ranked ─► ten at most
//!   SwingWatch ───┤
//!   Player ───────┘
//! ```
//!
//! A finding must be worth the change, so a well-configured idle farm gives no findings.

use crate::habits::{GuestHabits, Habits, TURNS_AN_HOUR};
use crate::past::{Guest, Past};
use crate::replay::Player;
use crate::size::{Advice, Sizing, Verdict};
use crate::swings::{SwingWatch, Swings};
use base::{Bytes, named, shell_word};
use std::cmp::Reverse;
use std::fmt;

/// Maximum number of findings. Nobody reads a longer list.
const FINDINGS_MAX: usize = 10;
/// Minimum part of the host's memory that is worth a change, in thousandths.
const MEMORY_PERMILLE: u64 = 10;
/// Minimum part of a CPU that is worth a change, in thousandths.
const CPU_PERMILLE: u64 = 5;
/// Maximum CPU use of an idle guest, in thousandths. A guest that is woken often may use four times
/// as much and still count as idle.
const IDLE_PERMILLE: u64 = 50;
/// Dispatches a minute from which an idle guest counts as woken often.
const WAKES_A_MINUTE: u64 = 600;
/// Minimum part of the dispatches for a process to count as the cause, in thousandths.
const CULPRIT_PERMILLE: u64 = 500;
/// Prefixes of the names of kernel threads. These threads work on behalf of processes.
const KERNEL: [&str; 19] = [
    "cpuhp",
    "hwrng",
    "irq/",
    "jbd2",
    "kcompactd",
    "kdevtmpfs",
    "khugepaged",
    "khungtaskd",
    "ksmd",
    "ksoftirqd",
    "kswapd",
    "kthreadd",
    "kworker",
    "migration",
    "oom_reaper",
    "psimon",
    "rcu_",
    "watchdog",
    "writeback",
];
/// pinhead's own processes in guests, which act on behalf of the guest's rules or of a user.
const OURS: [&str; 2] = ["pinhead-guest", "pinheadd"];
/// Minimum memory that KSM or page-out must gain per second of its CPU time.
const WORTH_A_SECOND: Bytes = Bytes::mib(10);
/// Minimum part of the time with unmet needs that counts as a shortage, in thousandths.
const SHORT_PERMILLE: u64 = 20;

named! {
    /// Kind of a finding.
    pub enum Fault {
        /// A guest needs memory within its maximum, and does not get it.
        Starved = "starved",
        /// A guest's memory is smaller than its need.
        TooSmall = "too small",
        /// The host is often below its reserve, or the host's own tasks wait for memory.
        SetPoint = "set point too low",
        /// A guest holds more than it needs.
        TooLarge = "too large",
        /// An idle guest is woken often.
        Woken = "woken",
        /// A guest's own rules act alternately in both directions.
        Oscillates = "rules oscillate",
        /// KSM uses CPU time without a gain.
        Ksm = "KSM gains nothing",
        /// Paged-out memory comes back.
        PageOut = "page-out does not pay",
    }
}

/// Change that removes a finding's cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Set the guest's maximum.
    Max(Bytes),
    /// Set the guest's minimum.
    Min(Bytes),
    /// Start the guest with this much memory.
    Memory(Bytes),
    /// Stop a process in the guest, if it is not needed.
    Stop(String),
    /// Let the guest's rules act less often.
    Slower,
    /// Change the host's set point.
    SetPoint(Bytes),
    /// Switch KSM off.
    NoKsm,
    /// Switch page-out off.
    NoPageOut,
}

/// Program that manages a guest's virtual machine. The command that changes the guest depends on
/// this program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// libvirt.
    Libvirt,
    /// `pinhead up`.
    Farm,
    /// Another program that starts QEMU.
    Other,
    /// Unknown, for example in a recording of another host.
    #[default]
    Unknown,
}

/// Gain of a finding's remedy, by which findings are ranked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gain {
    /// Memory of the host.
    pub memory: Bytes,
    /// CPU time, in thousandths of a CPU.
    pub cpu_permille: u64,
    /// Part of the time in which an unmet need would be met, in thousandths.
    pub met_permille: u64,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Kind of the finding.
    pub fault: Fault,
    /// The guest's name. Empty for the host.
    pub guest: String,
    /// Evidence: names and values.
    pub evidence: Vec<(&'static str, String)>,
    /// Evidence over time, for a small chart.
    pub chart: Vec<u64>,
    /// The remedy.
    pub remedy: Remedy,
    /// Gain of the remedy.
    pub gain: Gain,
}

impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.met_permille > 0 {
            parts.push(format!("needs met for another {} of the time", percent(self.met_permille)));
        }
        if self.memory.0 > 0 {
            parts.push(mib(self.memory));
        }
        if self.cpu_permille > 0 {
            parts.push(format!("{} of a CPU", percent(self.cpu_permille)));
        }
        f.write_str(&parts.join(", "))
    }
}

impl Finding {
    /// Returns the command of the remedy, for a guest of this source. If no command can be run,
    /// returns a comment.
    pub fn command(&self, source: Source) -> String {
        let guest = shell_word(&self.guest);
        // Only `pinhead up` can run a command in its guests.
        let has_exec = matches!(source, Source::Farm | Source::Unknown);
        match &self.remedy {
            Remedy::Max(size) => format!("pinhead set {guest} max \"{}\"", mib(*size)),
            Remedy::Min(size) => format!("pinhead set {guest} min \"{}\"", mib(*size)),
            Remedy::Memory(size) => {
                let mib = size.as_mib();
                let later = "takes effect at the next start";
                match source {
                    Source::Libvirt => {
                        format!("virsh setmaxmem --domain {guest} {mib}M --config   # {later}")
                    }
                    Source::Farm => format!(
                        "# memory = \"{mib} MiB\" for {guest} in FARM.toml, or `pinhead up \
                         --memory {mib}`: {later}"
                    ),
                    Source::Other => format!("# start {guest} with `qemu -m {mib}M`"),
                    Source::Unknown => format!(
                        "# give {guest} {mib} MiB at its next start: `virsh setmaxmem`, or memory \
                         in its farm's FARM.toml"
                    ),
                }
            }
            Remedy::Stop(name) if !has_exec => {
                format!("# in {guest}: pkill -x {}   # if nobody needs it", shell_word(name))
            }
            Remedy::Slower if !has_exec => format!(
                "# in {guest}: set UPDATE=\"30\" in /etc/pinheadd.conf, then run \
                 kill -HUP $(pidof pinheadd)"
            ),
            Remedy::Stop(name) => format!(
                "pinhead exec {guest} -- pkill -x {}   # if nobody needs it",
                shell_word(name)
            ),
            Remedy::Slower => format!(
                "pinhead exec {guest} -- sh -c 'sed -i \"s/^UPDATE=.*/UPDATE=\\\"30\\\"/\" \
                 /etc/pinhead.conf && kill -HUP $(pidof pinheadd)'"
            ),
            Remedy::SetPoint(size) => settings(&format!("[host] set_point = \"{}\"", mib(*size))),
            Remedy::NoKsm => settings("[ksm] mode = \"off\""),
            Remedy::NoPageOut => settings("[pageout] mode = \"off\""),
        }
    }

    /// Returns the weight of an advice for the ranking. The weight is the sum of three gains: of
    /// memory, of CPU time, and of needs that are met. Each gain is in millionths of the total, and
    /// the third counts tenfold.
    fn weight(&self, known: &Known<'_>) -> u64 {
        let Gain { memory, cpu_permille, met_permille } = self.gain;
        let total = known.total().0.max(1);
        let memory = u128::from(memory.0) * 1_000_000 / u128::from(total);
        let memory = u64::try_from(memory).unwrap_or(u64::MAX);
        let cpus = known.habits.host.cpus.max(1);
        memory
            .saturating_add(cpu_permille.saturating_mul(1_000) / cpus)
            .saturating_add(met_permille.saturating_mul(10_000))
    }
}

/// Input of the search for findings.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// Needs of the guests.
    pub past: &'a Past,
    /// Advised sizes of the guests.
    pub advice: &'a Advice,
    /// Behaviour of the guests and of the host.
    pub habits: &'a Habits,
    /// Reversals of the guests' own rules.
    pub swings: &'a SwingWatch,
    /// Replay of the recorded passes. Without passes, needs are only known by the minute.
    pub player: Option<&'a Player>,
    /// Minimum history for a finding.
    pub enough_ms: u64,
}

impl Known<'_> {
    /// Returns the memory that guests may use: the budget, or else the host's memory.
    fn total(&self) -> Bytes {
        let played = self.player.and_then(|player| player.host().total);
        played.unwrap_or(self.habits.host.total)
    }
}

/// Returns the findings, largest gain first.
pub fn tune(known: &Known<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for (guest, sizing) in known.past.guests().zip(&known.advice.guests) {
        let habits = known.habits.guest(&guest.name, &guest.uuid);
        if sizing.has_enough() {
            found.extend(short(known, guest, sizing));
            found.extend(too_large(known, guest, sizing, habits));
        }
        if let Some(habits) = habits.filter(|habits| habits.covered_ms >= known.enough_ms) {
            found.extend(woken(guest, habits));
            found.extend(oscillates(guest, habits, known.swings.of(&guest.name, &guest.uuid)));
        }
    }
    if known.habits.host.covered_ms >= known.enough_ms {
        found.extend(set_point(known));
        found.extend(ksm(known.habits));
        found.extend(page_out(known.habits));
    }
    found.sort_by_key(|finding| (Reverse(finding.weight(known)), finding.fault));
    found.truncate(FINDINGS_MAX);
    found
}

fn settings(line: &str) -> String {
    format!("systemctl reload pinhead-host   # first set {line} in /etc/pinhead/host.toml")
}

fn mib(size: Bytes) -> String {
    format!("{} MiB", size.nearest_mib())
}

fn percent(permille: u64) -> String {
    format!("{}.{} %", permille / 10, permille % 10)
}

fn needs(guest: &Guest) -> Vec<u64> {
    guest.steps.iter().filter_map(|step| Some(step.needed?.as_mib())).collect()
}

/// Finds a guest that lacks memory. Either the guest is too small, or the guest does not get memory
/// within its maximum.
fn short(known: &Known<'_>, guest: &Guest, sizing: &Sizing) -> Option<Finding> {
    let memory = sizing.memory?;
    let steps = guest.steps.len().max(1) as u64;
    let by_minutes = sizing.short_steps.saturating_mul(1000) / steps;
    let tally = known.player.and_then(|player| player.guests().find(|(n, _)| *n == guest.name));
    let by_passes = tally.map_or(0, |(_, tally)| {
        tally.short_ms.saturating_mul(1000).checked_div(tally.there_ms).unwrap_or(0)
    });
    let short_permille = by_minutes.max(by_passes);
    if short_permille < SHORT_PERMILLE && sizing.kills == 0 {
        return None;
    }
    let has = sizing.has?;
    let fits = has >= memory.size;
    let (fault, remedy) = match fits {
        true => (Fault::Starved, Remedy::Min(memory.size)),
        false => (Fault::TooSmall, Remedy::Memory(memory.size)),
    };
    Some(Finding {
        fault,
        guest: guest.name.clone(),
        evidence: vec![
            ("share of the time short of memory", percent(short_permille)),
            ("processes killed for lack of memory", sizing.kills.to_string()),
            ("memory at start", mib(has)),
            ("needs", mib(memory.size)),
        ],
        chart: needs(guest),
        remedy,
        gain: Gain { met_permille: short_permille.max(1), ..Gain::default() },
    })
}

/// Finds a guest that holds more of the host's memory than it needs.
fn too_large(
    known: &Known<'_>,
    guest: &Guest,
    sizing: &Sizing,
    habits: Option<&GuestHabits>,
) -> Option<Finding> {
    let memory = sizing.memory.filter(|_| sizing.verdict == Verdict::TooLarge)?;
    let holds = habits?.holds?;
    let gain = holds.less(memory.upper);
    if gain < known.total().permille(MEMORY_PERMILLE) {
        return None;
    }
    Some(Finding {
        fault: Fault::TooLarge,
        guest: guest.name.clone(),
        evidence: vec![
            ("memory at start", mib(sizing.has?)),
            ("holds", mib(holds)),
            ("needs at most", mib(memory.upper)),
        ],
        chart: needs(guest),
        remedy: Remedy::Max(memory.size),
        gain: Gain { memory: gain, ..Gain::default() },
    })
}

/// Finds an idle guest that one process wakes often.
fn woken(guest: &Guest, habits: &GuestHabits) -> Option<Finding> {
    let cpu_permille = habits.cpu_permille()?;
    let wakes = habits.a_minute(habits.dispatches)?;
    if cpu_permille >= IDLE_PERMILLE * 4 || wakes < WAKES_A_MINUTE {
        return None;
    }
    let is_own = |name: &str| !KERNEL.iter().any(|thread| name.starts_with(thread));
    let own = || habits.wakers.iter().filter(|(name, _)| is_own(name));
    let (name, times) = own()
        .max_by_key(|(_, times)| **times)
        .filter(|(name, _)| !OURS.contains(&name.as_str()))?;
    let all = own().fold(0u64, |sum, (_, times)| sum.saturating_add(*times));
    if times.saturating_mul(1000) < all.saturating_mul(CULPRIT_PERMILLE) {
        return None;
    }
    if cpu_permille < CPU_PERMILLE {
        return None;
    }
    Some(Finding {
        fault: Fault::Woken,
        guest: guest.name.clone(),
        evidence: vec![
            ("share of a CPU", percent(cpu_permille)),
            ("dispatches a minute", wakes.to_string()),
            ("most dispatches by", name.clone()),
            (
                "its share of the dispatches of all processes",
                percent(times.saturating_mul(1000) / all.max(1)),
            ),
        ],
        chart: habits.wakes.clone(),
        remedy: Remedy::Stop(name.clone()),
        gain: Gain { cpu_permille, ..Gain::default() },
    })
}

/// Finds a guest with rules that undo their own actions while its load is the same.
fn oscillates(guest: &Guest, habits: &GuestHabits, swings: Swings) -> Option<Finding> {
    let (cpus, pool) = (swings.an_hour(swings.cpus), swings.an_hour(swings.memory));
    if cpus.max(pool) < TURNS_AN_HOUR {
        return None;
    }
    Some(Finding {
        fault: Fault::Oscillates,
        guest: guest.name.clone(),
        evidence: vec![
            ("CPUs plugged and unplugged at the same load, an hour", cpus.to_string()),
            ("memory given and taken at the same use, an hour", pool.to_string()),
        ],
        chart: habits.turns.clone(),
        remedy: Remedy::Slower,
        gain: Gain {
            cpu_permille: cpus.max(pool).saturating_mul(CPU_PERMILLE) / TURNS_AN_HOUR,
            ..Gain::default()
        },
    })
}

/// Finds a host that is often short of memory.
fn set_point(known: &Known<'_>) -> Option<Finding> {
    let host = &known.habits.host;
    let played = known.player.map(Player::host);
    let below = played.map_or(0, |host| {
        host.below_reserve_ms.saturating_mul(1000).checked_div(host.ms).unwrap_or(0)
    });
    let waits = host.waits_permille().unwrap_or(0);
    let short_permille = below.max(waits);
    if short_permille < SHORT_PERMILLE {
        return None;
    }
    let set_point = host.set_point?;
    Some(Finding {
        fault: Fault::SetPoint,
        guest: String::new(),
        evidence: vec![
            ("share of the time below the reserve", percent(below)),
            ("share of the time with waits for memory", percent(waits)),
            ("set point", mib(set_point)),
        ],
        chart: host.available.clone(),
        remedy: Remedy::SetPoint(set_point.plus(set_point)),
        gain: Gain { met_permille: short_permille, ..Gain::default() },
    })
}

fn ksm(habits: &Habits) -> Option<Finding> {
    let host = &habits.host;
    let cpu_permille = host.cpu_permille(host.ksm_ns)?;
    let seconds = host.ksm_ns / 1_000_000_000;
    let gained = host.ksm_last?.less(host.ksm_first?);
    if cpu_permille < CPU_PERMILLE || gained.0 >= WORTH_A_SECOND.0.saturating_mul(seconds) {
        return None;
    }
    Some(Finding {
        fault: Fault::Ksm,
        guest: String::new(),
        evidence: vec![
            ("CPU use of KSM", percent(cpu_permille)),
            ("shared by KSM at the start", mib(host.ksm_first?)),
            ("shared by KSM at the end", mib(host.ksm_last?)),
        ],
        chart: host.ksm.clone(),
        remedy: Remedy::NoKsm,
        gain: Gain { cpu_permille, ..Gain::default() },
    })
}

fn page_out(habits: &Habits) -> Option<Finding> {
    let host = &habits.host;
    let cpu_permille = host.cpu_permille(host.page_out_ns)?;
    let kept = host.paged_out.less(host.came_back);
    let seconds = host.page_out_ns / 1_000_000_000;
    if cpu_permille < CPU_PERMILLE || kept.0 >= WORTH_A_SECOND.0.saturating_mul(seconds) {
        return None;
    }
    Some(Finding {
        fault: Fault::PageOut,
        guest: String::new(),
        evidence: vec![
            ("CPU use of page-out", percent(cpu_permille)),
            ("paged out", mib(host.paged_out)),
            ("came back", mib(host.came_back)),
        ],
        chart: host.available.clone(),
        remedy: Remedy::NoPageOut,
        gain: Gain { cpu_permille, ..Gain::default() },
    })
}

#[cfg(test)]
mod tests;
