//! The rules against sizing by hand, after the study of 2012. The guests are two triplets of a web
//! server, an application server and a database, and two guests with all three. The study's clients
//! had no think time, which saturates the guests. At saturation the results of rounds differ by
//! tens of percent. So requests come at a rate for which the hand-sized guests use 55 % of the CPU,
//! and latencies are compared.
//!
//! Two farms exist at the same time, so that everything is measured within one run. The guests of
//! the first farm are sized by hand: a search on the second farm finds the sizes before the first
//! farm starts. The guests of the second farm have every CPU and more memory than they need, with
//! rules that return the surplus. Memory that these guests do not touch may go to compressed memory
//! of the host. Only the rules change between two configurations.

mod farms;
mod load;
mod run;
mod sizes;
mod view;

pub use run::run;
pub use view::view;

use crate::site::RIVALS;
use policy::rivals::Kind;

pub(crate) const HAND: &str = "hand-sized";
/// Our own policy: the CPU rules that serve best here, and memory from the manager. Without CPU
/// rules, this policy and the case `no rules` had 80 % of the throughput, because 32 virtual CPUs
/// shared 2 CPUs.
pub(crate) const OURS: &str = "pinhead";
/// Guests with all CPUs and memory, and without rules.
pub(crate) const ALL: &str = "no rules";

/// Cases with other phases than the rest.
pub(crate) const DYNAMIC: &str = "dynamic";
pub(crate) const STEAL: &str = "steal";

/// Cases outside the rounds: the start of both farms, the search for the sizes by hand, and the
/// search for the rate. The farms run until the experiment ends.
pub(crate) const FARMS: &str = "the farms";
pub(crate) const SIZES: &str = "sizes by hand";
pub(crate) const CALIBRATION: &str = "calibration";

/// Cases that run by default. Six rounds of these cases fit into an hour.
pub(crate) const USUAL: &[&str] = &[HAND, "cpu-real-load", OURS, DYNAMIC, STEAL];

/// Names of the measures of memory over time: in use by the guests' kernels, private on the host,
/// and private including compressed memory.
pub(crate) const VIEWS: [&str; 3] =
    ["Linux's own x time", "private x time", "private and compressed x time"];

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

/// A class with its number of clients, which determines its share of all requests.
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

/// The requested page, which goes through all three servers.
pub(crate) const PAGE: &str = "/app";

/// CPU rules for cases in which a manager moves memory. Rules that switch CPUs with the load would
/// cost latency: after each switch an emulated guest translates its code again for half a minute.
const RULES: &str = "cpu-steady";

/// Returns the cases, in the order of execution: the baseline, the published configurations, our
/// own, and other managers' rules in place of our own.
pub(crate) fn cases() -> Vec<(&'static str, Option<&'static str>)> {
    let mut cases: Vec<_> =
        crate::published::PLUG.iter().map(|row| (row.name, row.preset)).collect();
    cases.push((ALL, None));
    cases.push((OURS, Some(RULES)));
    cases.extend(RIVALS.map(|rules| (rules.name(), Some(RULES))));
    cases
}

/// Returns the rules of the manager in a case; `None` without a manager.
pub(crate) fn rules_of(case: &str) -> Option<Kind> {
    match case {
        OURS => Some(Kind::Pinhead),
        _ => RIVALS.into_iter().find(|rules| rules.name() == case),
    }
}
