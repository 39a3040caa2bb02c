//! Pinhead's own record: resources of the guest, waits of its tasks, and actions of its rules.

use crate::guestmon::summary::cpus;
use crate::guestmon::text::Text;
use model::counters::PsiLine;
use procfs::Root;
use procfs::parse::{numbers, pressure, value_of};
use std::fs;
use zmon::pinhead::{HAS_RULES, IS_SETTLED, Numbers, Own, UNKNOWN};

/// Actions of a guest's rules since the daemon's start, with the last reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Number of CPUs plugged by the rules.
    pub plugs: u64,
    /// Number of CPUs unplugged by the rules.
    pub unplugs: u64,
    /// Number of times that the pool grew, so that the guest had less memory.
    pub grows: u64,
    /// Number of times that the pool shrank, so that the guest had more memory.
    pub shrinks: u64,
    /// True if the rules have nothing to do.
    pub is_settled: bool,
    /// Reason of the last action.
    pub reason: String,
}

/// Returns the record of the system below a root.
pub fn own(root: &Root, rules: Option<Rules>) -> Own {
    let mut text = Text::default();
    let mut numbers = Numbers {
        cpus: cpus(root, &mut text, "online"),
        present: cpus(root, &mut text, "present"),
        pool_pages: number(root, &mut text, "proc/sys/vm/cmm_pages"),
        timed_pages: number(root, &mut text, "proc/sys/vm/cmm_timed_pages"),
        available: value(root, "proc/meminfo", "MemAvailable"),
        killed: value(root, "proc/vmstat", "oom_kill"),
        some_us: UNKNOWN,
        full_us: UNKNOWN,
        plugs: UNKNOWN,
        unplugs: UNKNOWN,
        grows: UNKNOWN,
        shrinks: UNKNOWN,
        flags: 0,
    };
    if let Ok(found) = text.read(root, "proc/pressure/memory") {
        let of = |line| pressure::total_us(found, line).unwrap_or(UNKNOWN);
        (numbers.some_us, numbers.full_us) = (of(PsiLine::Some), of(PsiLine::Full));
    }
    let Some(rules) = rules else { return Own { numbers, reason: Vec::new() } };
    let Rules { plugs, unplugs, grows, shrinks, is_settled, reason } = rules;
    let flags = HAS_RULES | if is_settled { IS_SETTLED } else { 0 };
    let numbers = Numbers { plugs, unplugs, grows, shrinks, flags, ..numbers };
    Own { numbers, reason: reason.into_bytes() }
}

fn number(root: &Root, text: &mut Text, path: &str) -> u64 {
    let found = text.read(root, path).ok().and_then(numbers);
    found.map_or(UNKNOWN, |[number]| number)
}

fn value(root: &Root, path: &str, name: &str) -> u64 {
    let text = fs::read(root.join(path)).unwrap_or_default();
    value_of(&text, name).unwrap_or(UNKNOWN)
}
