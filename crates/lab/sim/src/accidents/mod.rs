//! The accident book: incidents that other managers' users reported, as worlds for any policy.
//!
//! ```text
//!   world before ─► the incident ─► measure(policy) ─► harmless up to a limit ─► docs/accidents.md
//! ```
//!
//! Each world measures one harm. Up to the world's limit the harm is a nuisance. Above the limit it
//! is an accident.

mod worlds;

use crate::figures::{GIB, MIB};
use crate::policies::Policy;
use crate::table::{HOARDER, Question, Row, SQUEEZE, Unit, ask};
use policy::rivals::Kind;
use std::fmt::Write as _;

/// A reported incident.
struct Accident {
    /// The incident in one sentence, and the measurement of its harm.
    question: Question,
    reports: &'static str,
}

const fn met(question: Question, reports: &'static str) -> Accident {
    Accident { question, reports }
}

const ACCIDENTS: &[Accident] = &[
    met(
        ask(
            "a balloon from the start is not given back, half of the host free: wait for memory in \
             30 minutes",
            Unit::Time,
            10_000,
            |p| Some(worlds::starved(p)),
        ),
        "home-assistant/operating-system #4805, arcbox #390 (18 hours at full CPU)",
    ),
    met(
        ask(
            "balloons return nothing to a host that is short: memory that neither side has, ten \
             minutes later",
            Unit::Size,
            GIB / 2,
            |p| Some(worlds::in_vain(p)),
        ),
        "arcbox #504 (15 GB inflated, 0 gained)",
    ),
    met(
        ask(
            "eight guests full of cache, their MemFree near 0, a ninth in need: processes killed",
            Unit::Count,
            0,
            |p| Some(worlds::cached(p)),
        ),
        "vm0 #35462 (eight guests destroyed: MemFree was read, not MemAvailable)",
    ),
    met(
        ask(
            "a guest boots on a host that is short: its wait for memory in 2 minutes",
            Unit::Time,
            2_000,
            |p| Some(worlds::boot(p)),
        ),
        "QubesOS/qubes-issues #4887 (squeezed to 138 MB while it boots)",
    ),
    met(
        ask(
            "the manager dies while balloons stand, and a guest claims a minute later: until it is \
             served",
            Unit::Time,
            5_000,
            worlds::death,
        ),
        "oVirt/mom #21, oVirt/ovirt-engine #712",
    ),
    met(SQUEEZE, "home-assistant/operating-system #4805 (targets from the host's headroom alone)"),
    met(
        ask(
            "a backup reads every file of one guest: its neighbours' wait for memory",
            Unit::Time,
            2_000,
            |p| Some(worlds::backup(p)),
        ),
        "home-assistant/operating-system #2999, QubesOS/qubes-issues #10007",
    ),
    met(
        ask(
            "another manager sets the same balloon every 15 s for ten minutes: orders against it",
            Unit::Count,
            20,
            |p| Some(worlds::two_managers(p)),
        ),
        "no public report found; an operator's own `virsh setmem` does the same",
    ),
    met(
        ask(
            "a guest reboots under a balloon, which its driver inflates again: its wait for memory",
            Unit::Time,
            3_000,
            |p| Some(worlds::reboot(p)),
        ),
        "home-assistant/operating-system #4805 (the balloon inflates at each start)",
    ),
    met(
        ask(
            "the host is short, guests have swap: memory that guests swap for it",
            Unit::Size,
            64 * MIB,
            |p| Some(worlds::swapped(p)),
        ),
        "shakenfist #3920 (4.9 GB swapped out, free in the guest)",
    ),
    met(HOARDER, "QubesOS/qubes-issues #3265, #9627"),
    met(
        ask(
            "guests promised half more than the host has fill up: beyond the host's memory",
            Unit::Size,
            0,
            |p| Some(worlds::overfull(p)),
        ),
        "orakl #2509 (the host's OOM killer took a guest)",
    ),
];

/// Returns a row for each incident. `make` creates a policy of a kind.
pub fn rows(make: &dyn Fn(Kind) -> Box<dyn Policy>) -> Vec<Row> {
    ACCIDENTS.iter().map(|accident| accident.question.row(make)).collect()
}

impl Row {
    /// Returns true if a value is known, and not above the limit of harm.
    pub fn is_harmless(&self, value: Option<u64>) -> bool {
        value.is_some_and(|value| value <= self.at_most)
    }
}

/// Returns the book in Markdown: one row for each incident, with harm in bold, and the reports.
pub fn markdown(rows: &[Row]) -> String {
    let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    let mut out = format!(
        "| incident: what is measured | harmless up to | {} |\n|---|--:|{}\n",
        names.join(" | "),
        "--:|".repeat(names.len())
    );
    let mut harmless = vec![0; Kind::ALL.len()];
    for row in rows {
        let mut cells = Vec::new();
        for (value, count) in row.values.iter().zip(&mut harmless) {
            let is_harmless = row.is_harmless(*value);
            *count += usize::from(is_harmless);
            let text = row.unit.show(*value);
            cells.push(if is_harmless { text } else { format!("**{text}**") });
        }
        let limit = row.unit.show(Some(row.at_most));
        // Writing to a string cannot fail.
        let _ = writeln!(out, "| {} | {limit} | {} |", row.name, cells.join(" | "));
    }
    let counts: Vec<String> = harmless.iter().map(|n| format!("{n} of {}", rows.len())).collect();
    let _ = writeln!(out, "| harmless | | {} |\n\nReported in:\n", counts.join(" | "));
    for (row, accident) in rows.iter().zip(ACCIDENTS) {
        let _ = writeln!(out, "- {}: {}", row.name, accident.reports);
    }
    out
}
