//! A virtual disk for swap, after the study of 2001: the same tar in a large guest, in a small
//! one that swaps to memory, and in a small one that has no such swap; other guests beside it
//! answer a few hits a second, all of them within one limit.
//!
//! The limit is what makes the study's effect possible: a large guest keeps the tar's files in a
//! cache, which the host has no memory for, and the others' pages go out for it. So it is short
//! even of what the large guest's files take, and the tar reads them again and again. And the host
//! pages to what is as slow as a disk, as the study's did: compressed memory gives back what went
//! out so soon that the others do not wait (15 ms beside the large guest, 10 beside the small one).

mod run;
mod view;

pub use run::run;
pub use view::view;

use policy::rivals::Kind;

/// A guest that runs the tar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// What it is called, here and in the study.
    pub name: &'static str,
    /// Its memory.
    pub memory_mib: u32,
    /// Its swap on compressed memory of its own; 0 is none.
    pub swap_mib: u32,
    /// By whose rules a manager moves memory; `None` where there is none, as in the study.
    pub rules: Option<Kind>,
}

pub(crate) const LARGE: Case =
    Case { name: "large guest", memory_mib: 384, swap_mib: 0, rules: None };
pub(crate) const SMALL: Case =
    Case { name: "small guest, swap in memory", memory_mib: 96, swap_mib: 100, rules: None };
/// Nobody has to size the guest where a manager takes its cache.
pub(crate) const MANAGED: Case =
    Case { name: "large guest, pinhead", rules: Some(Kind::Pinhead), ..LARGE };
/// The study's three, and ours: run when none is named.
pub(crate) const USUAL: [Case; 4] =
    [LARGE, SMALL, Case { name: "small guest, no such swap", swap_mib: 0, ..SMALL }, MANAGED];

/// All cases: other managers' rules are run when they are named.
pub(crate) fn cases() -> Vec<Case> {
    let rivals = [
        ("large guest, mom", Kind::Mom),
        ("large guest, proxmox", Kind::Proxmox),
        ("large guest, pi", Kind::Pi),
        ("large guest, senpai", Kind::Senpai),
    ];
    let rivals = rivals.map(|(name, rules)| Case { name, rules: Some(rules), ..LARGE });
    USUAL.into_iter().chain(rivals).collect()
}

/// The phases.
pub(crate) mod phase {
    pub const MANAGE: &str = "manager";
    pub const SETTLE: &str = "until all have their memory";
    pub const ALONE: &str = "without the tar";
    pub const TAR: &str = "the tar runs";
}
