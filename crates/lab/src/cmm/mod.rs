//! Ballooning against page hinting, after the study of 2009: databases on twice overcommitted
//! memory, and a guest that claims memory while the others have touched all of theirs.
//!
//! The manager's balloon is CMM1; free page reporting is what is left today of CMM2's page states:
//! it gives back what is free, and knows nothing of what could be discarded.

mod run;
mod view;

pub use run::run;
pub use view::view;

/// How memory gets from one guest to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub name: &'static str,
    pub balloon: bool,
    pub reporting: bool,
    /// Whether the manager also pages out who sleeps.
    pub page_out: bool,
}

/// The ways: the study's, and page-out beside both of them.
pub(crate) const WAYS: &[Way] = &[
    Way { name: "nothing", balloon: false, reporting: false, page_out: false },
    Way { name: "balloon", balloon: true, reporting: false, page_out: false },
    Way { name: "page reporting", balloon: false, reporting: true, page_out: false },
    Way { name: "both", balloon: true, reporting: true, page_out: false },
    Way { name: "both, page-out", balloon: true, reporting: true, page_out: true },
];

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
    pub const LOAD: &str = "transactions";
}
