//! Ballooning against page hinting, after the study of 2009: databases on twice overcommitted
//! memory, and a guest that claims memory while the others have touched all of theirs.
//!
//! The manager's balloon is CMM1; free page reporting is what is left today of CMM2's page states:
//! it gives back what is free, and knows nothing of what could be discarded.

mod run;
mod view;

pub use run::run;
pub use view::view;

use crate::site::RIVALS;
use policy::rivals::Kind;

/// How memory gets from one guest to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub name: &'static str,
    /// Whose rules move memory by the balloon; `None` where nobody does.
    pub rules: Option<Kind>,
    pub reporting: bool,
    /// Whether the manager also pages out who sleeps.
    pub page_out: bool,
    /// Whether the host has less than all of them could use.
    pub limited: bool,
}

const NOTHING: Way =
    Way { name: "nothing", rules: None, reporting: false, page_out: false, limited: true };
/// A host with memory for all: what a way can gain at most, against doing nothing.
const NO_LIMIT: Way = Way { name: "no limit", limited: false, ..NOTHING };
const BALLOON: Way = Way { name: "balloon", rules: Some(Kind::Pinhead), ..NOTHING };
const REPORTING: Way = Way { name: "page reporting", reporting: true, ..NOTHING };
const BOTH: Way = Way { name: "both", reporting: true, ..BALLOON };
/// Ours: all levers that there are.
const OURS: Way = Way { name: "both, page-out", page_out: true, ..BOTH };
/// Ours where guests report no free pages.
const UNREPORTED: Way = Way { name: "balloon, page-out", page_out: true, ..BALLOON };

/// The ways that are run when none is named. Six rounds of them take about an hour and a half.
const USUAL: [Way; 4] = [NOTHING, REPORTING, BOTH, OURS];

/// All ways: the study's, page-out beside them, a host that has enough, and other managers' rules.
pub(crate) fn ways() -> Vec<Way> {
    let rival = |rules: &Kind| Way { name: rules.name(), rules: Some(*rules), ..NOTHING };
    let ours = [NO_LIMIT, NOTHING, BALLOON, REPORTING, BOTH, OURS, UNREPORTED];
    ours.into_iter().chain(RIVALS.iter().map(rival)).collect()
}

/// A case: what is run, and the way.
pub(crate) fn case(what: &str, way: &str) -> String {
    format!("{what}: {way}")
}

pub(crate) const OLTP: &str = "OLTP";
/// The same on a host that pages to what is as slow as a disk.
pub(crate) const OLTP_DISK: &str = "OLTP, disk";
pub(crate) const CLAIM: &str = "claim";

/// The sizes of a claim in MiB, with their phases.
pub(crate) const CLAIMS: [(&str, u64); 3] =
    [("small claim", 50), ("medium claim", 100), ("large claim", 150)];

/// The phases.
pub(crate) mod phase {
    pub const MANAGE: &str = "manager";
    pub const FILL: &str = "memory is touched";
    pub const WARM: &str = "first transactions";
    pub const LOAD: &str = "transactions";
}
