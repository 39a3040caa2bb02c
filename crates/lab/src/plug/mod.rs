//! The rules against sizing by hand, after the study of 2012: two triplets of a web server, an
//! application server and a database, and two guests with all three. The study's clients had no
//! think time; at saturation rounds spread by tens of percent, so that here requests come at a
//! rate that the guests sized by hand serve with 60 % of the CPU, and latencies are compared.
//!
//! Two farms are there at the same time, so that all is measured within one run: one that is
//! sized by hand, by a search on the other before it starts, and one whose guests have every CPU
//! and more memory than they need, with rules to give it back; what those do not touch may go to
//! compressed memory of the host. Between two configurations only the rules change.

mod farms;
mod load;
mod run;
mod sizes;
mod view;

pub use run::run;
pub use view::view;

use crate::site::RIVALS;
use policy::rivals::Kind;

/// The baseline.
pub(crate) const HAND: &str = "hand-sized";
/// Our own policy: CPUs by the rules that serve best here, and memory from the manager. Without
/// rules for CPUs it had 80 % of the throughput, as `no rules` has: 32 virtual CPUs on 2.
pub(crate) const OURS: &str = "pinhead";
/// Guests with all CPUs and memory, which nothing takes away.
pub(crate) const ALL: &str = "no rules";

/// Runs with a course of their own.
pub(crate) const DYNAMIC: &str = "dynamic";
pub(crate) const STEAL: &str = "steal";

/// The two farms, which live as long as the experiment, and the searches for the sizes by hand and
/// for the rate.
pub(crate) const FARMS: &str = "the farms";
pub(crate) const SIZES: &str = "sizes by hand";
pub(crate) const CALIBRATION: &str = "calibration";

/// Cases that are run when none is named: six rounds of them fit into an hour.
pub(crate) const USUAL: &[&str] = &[HAND, "cpu-real-load", OURS, DYNAMIC, STEAL];

/// Memory over time: what the guests' kernels have in use, what the host has for nobody else, and
/// that with what lies compressed.
pub(crate) const VIEWS: [&str; 3] =
    ["Linux's own x time", "private x time", "private and compressed x time"];

/// The phases.
pub(crate) mod phase {
    pub const START: &str = "start";
    pub const MEMORY: &str = "memory";
    pub const SIZES: &str = "sizes";
    pub const STEP: &str = "a step";
    pub const FOUND: &str = "found";
    pub const RULES: &str = "rules";
    pub const LOAD: &str = "load";
    pub const DYNAMIC: [&str; 5] =
        ["set 1 loaded", "both rest", "set 2 loaded", "both rest again", "set 1 loaded again"];
    pub const BUILD: &str = "build while the pool grows";
}

/// Whom clients ask, and how many they are: so much of all requests goes to this class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    pub class: &'static str,
    pub clients: usize,
}

/// All clients of the study.
pub(crate) const SETS: &[Set] = &[
    Set { class: "weba", clients: 3 },
    Set { class: "webb", clients: 6 },
    Set { class: "comboa", clients: 4 },
    Set { class: "combob", clients: 4 },
];

/// Every page goes through all three servers.
pub(crate) const PAGE: &str = "/app";

/// The rules for CPUs where a manager moves memory. Those that switch CPUs as the load comes and
/// goes cost latency: for half a minute after each switch an emulated guest translates anew.
const RULES: &str = "cpu-steady";

/// The cases, in the order in which they are run: the baseline, the published configurations,
/// ours, and other managers' rules in place of ours.
pub(crate) fn cases() -> Vec<(&'static str, Option<&'static str>)> {
    let mut cases: Vec<_> =
        crate::published::PLUG.iter().map(|row| (row.name, row.preset)).collect();
    cases.push((ALL, None));
    cases.push((OURS, Some(RULES)));
    cases.extend(RIVALS.map(|rules| (rules.name(), Some(RULES))));
    cases
}

/// By whose rules a manager moves memory in a case; `None` where there is none.
pub(crate) fn rules_of(case: &str) -> Option<Kind> {
    match case {
        OURS => Some(Kind::Pinhead),
        _ => RIVALS.into_iter().find(|rules| rules.name() == case),
    }
}
