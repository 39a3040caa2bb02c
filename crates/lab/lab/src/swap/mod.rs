//! A virtual disk for swap, after the study of 2001. The same tar runs in a large guest, in a small
//! guest that swaps to memory, and in a small guest without swap. Other guests serve a few requests
//! a second at the same time. All guests share one limit.
//!
//! The limit makes the study's effect possible. A large guest keeps the tar's files in its cache.
//! The host has no memory for this cache, and pages out the other guests. For this, the limit is
//! smaller than the files in the large guest's cache, and the tar reads the files repeatedly. The
//! host's swap is as slow as a disk, as in the study. With compressed memory the other guests
//! hardly wait (15 ms next to the large guest, 10 ms next to the small guest).

mod run;
mod view;

pub use run::run;
pub use view::view;

use policy::rivals::Kind;

/// A guest that runs the tar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// Name of the case. The study has the first three cases.
    pub name: &'static str,
    /// Memory of the guest.
    pub memory_mib: u32,
    /// Swap on compressed memory in the guest. 0 means no swap.
    pub swap_mib: u32,
    /// Rules of the manager that moves memory; `None` without a manager, as in the study.
    pub rules: Option<Kind>,
}

pub(crate) const LARGE: Case =
    Case { name: "large guest", memory_mib: 384, swap_mib: 0, rules: None };
pub(crate) const SMALL: Case =
    Case { name: "small guest, swap in memory", memory_mib: 96, swap_mib: 100, rules: None };
/// The large guest under a manager. The manager reclaims the guest's cache, so no user must choose
/// the guest's size.
pub(crate) const MANAGED: Case =
    Case { name: "large guest, pinhead", rules: Some(Kind::Pinhead), ..LARGE };
/// Cases that run by default: the study's three, and our own.
pub(crate) const USUAL: [Case; 4] =
    [LARGE, SMALL, Case { name: "small guest, no such swap", swap_mib: 0, ..SMALL }, MANAGED];

/// Returns all cases. The cases with other managers' rules run only when they are named.
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

pub(crate) mod phase {
    pub const MANAGE: &str = "manager";
    pub const SETTLE: &str = "until all have their memory";
    pub const ALONE: &str = "without the tar";
    pub const TAR: &str = "the tar runs";
}
