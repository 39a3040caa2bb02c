//! Ballooning against page hinting, after the study of 2009. Databases run on memory that is
//! overcommitted twofold, or a guest claims memory after the other guests have touched all of their
//! memory.
//!
//! The manager's balloon replaces CMM1. Free page reporting is the part of CMM2's page states that
//! still exists today: it returns free pages, but not discardable pages.

mod run;
mod view;

pub use run::run;
pub use view::view;

use crate::site::RIVALS;
use policy::rivals::Kind;

/// A mechanism, or a combination of mechanisms, that moves memory between guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub name: &'static str,
    /// Rules by which a manager moves memory with the balloon; `None` without a manager.
    pub rules: Option<Kind>,
    pub reporting: bool,
    /// True if the manager also pages out idle guests.
    pub page_out: bool,
    /// True if the host has less memory than all guests could use.
    pub limited: bool,
}

const NOTHING: Way =
    Way { name: "nothing", rules: None, reporting: false, page_out: false, limited: true };
/// A host with memory for all guests. It shows the maximum gain of any way.
const NO_LIMIT: Way = Way { name: "no limit", limited: false, ..NOTHING };
const BALLOON: Way = Way { name: "balloon", rules: Some(Kind::Pinhead), ..NOTHING };
const REPORTING: Way = Way { name: "page reporting", reporting: true, ..NOTHING };
const BOTH: Way = Way { name: "both", reporting: true, ..BALLOON };
/// Pinhead's way, with all available mechanisms.
const OURS: Way = Way { name: "both, page-out", page_out: true, ..BOTH };
/// Pinhead's way if guests report no free pages.
const UNREPORTED: Way = Way { name: "balloon, page-out", page_out: true, ..BALLOON };

/// Ways that run by default. Six rounds of these ways take about an hour and a half.
const USUAL: [Way; 4] = [NOTHING, REPORTING, BOTH, OURS];

/// Returns all ways: the study's, page-out, a host with enough memory, and other managers' rules.
pub(crate) fn ways() -> Vec<Way> {
    let rival = |rules: &Kind| Way { name: rules.name(), rules: Some(*rules), ..NOTHING };
    let ours = [NO_LIMIT, NOTHING, BALLOON, REPORTING, BOTH, OURS, UNREPORTED];
    ours.into_iter().chain(RIVALS.iter().map(rival)).collect()
}

pub(crate) fn case(what: &str, way: &str) -> String {
    format!("{what}: {way}")
}

pub(crate) const OLTP: &str = "OLTP";
/// Databases on a host with swap as slow as a disk.
pub(crate) const OLTP_DISK: &str = "OLTP, disk";
pub(crate) const CLAIM: &str = "claim";

/// The phases with a claim, and the sizes of the claims in MiB.
pub(crate) const CLAIMS: [(&str, u64); 3] =
    [("small claim", 50), ("medium claim", 100), ("large claim", 150)];

pub(crate) mod phase {
    pub const MANAGE: &str = "manager";
    pub const FILL: &str = "memory is touched";
    pub const WARM: &str = "first transactions";
    pub const LOAD: &str = "transactions";
}
