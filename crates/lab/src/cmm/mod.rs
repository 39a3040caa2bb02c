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
}

const NOTHING: Way = Way { name: "nothing", rules: None, reporting: false, page_out: false };
const BALLOON: Way = Way { name: "balloon", rules: Some(Kind::Pinhead), ..NOTHING };
const REPORTING: Way = Way { name: "page reporting", reporting: true, ..NOTHING };
const BOTH: Way = Way { name: "both", reporting: true, ..BALLOON };
/// Ours: all levers that there are.
const OURS: Way = Way { name: "both, page-out", page_out: true, ..BOTH };

/// The ways that are run when none is named: six rounds of them fit into an hour.
const USUAL: [Way; 4] = [NOTHING, REPORTING, BOTH, OURS];

/// All ways: the study's, page-out beside both of them, and other managers' rules.
pub(crate) fn ways() -> Vec<Way> {
    let rival = |rules: &Kind| Way { name: rules.name(), rules: Some(*rules), ..NOTHING };
    let ours = [NOTHING, BALLOON, REPORTING, BOTH, OURS];
    ours.into_iter().chain(RIVALS.iter().map(rival)).collect()
}

/// A case: what is run, and the way.
pub(crate) fn case(what: &str, way: &str) -> String {
    format!("{what}: {way}")
}

pub(crate) const OLTP: &str = "OLTP";
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
