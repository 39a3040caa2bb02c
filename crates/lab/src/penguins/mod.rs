//! How many servers on a pin head: the three experiments of the talk of 2006, with web servers
//! from one template.
//!
//! Sharing equal pages is today's shared kernel and shared binaries (NSS and DCSS), compressed
//! memory is expanded storage, a swap file is the paging disk, swap on zram in the guest is the
//! virtual disk (VDISK), and the manager's balloon is CMM.

mod run;
mod view;

pub use run::run;
pub use view::view;

use policy::rivals::Kind;

/// One way to run the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// What it is called.
    name: &'static str,
    /// As many servers as this at most: the first experiment had 40.
    guests_max: u32,
    /// Whether what is equal is shared: the template's memory, and what KSM finds.
    ksm: bool,
    /// Whether all of them are limited, and to what.
    limit: Option<Limit>,
    /// By whose rules a manager moves their memory; `None` where there is none.
    rules: Option<Kind>,
    /// Whether it also pages out who sleeps, to compressed memory of the host.
    pages_out: bool,
    /// Whether each has swap on compressed memory of its own.
    guest_swap: bool,
    /// Whether one of them is hit 250 times, and booted again.
    single: bool,
}

/// How much of the host's memory all servers of a case have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// A quarter of what they have without sharing.
    Quarter,
    /// So much for each.
    EachMib(u32),
}

/// Those that the promises are about.
pub(crate) const FREE: &str = "no limit";
pub(crate) const LIMITED: &str = "limited, managed";
pub(crate) const SHARED: &str = "sharing";
pub(crate) const PAGED: &str = "sharing, paged out";
pub(crate) const SQUEEZED: &str = "squeezed";
pub(crate) const FORTY: &str = "forty, sharing";

const PLAIN: Case = Case {
    name: FREE,
    guests_max: u32::MAX,
    ksm: false,
    limit: None,
    rules: None,
    pages_out: false,
    guest_swap: false,
    single: false,
};

/// All of them; the limit of the later ones is made from the memory of the first.
pub(crate) const CASES: &[Case] = &[
    Case { single: true, ..PLAIN },
    Case { name: FORTY, guests_max: 40, ksm: true, ..PLAIN },
    Case { name: SHARED, ksm: true, ..PLAIN },
    Case { name: PAGED, ksm: true, rules: Some(Kind::Pinhead), pages_out: true, ..PLAIN },
    Case { name: SQUEEZED, limit: Some(Limit::EachMib(17)), ..MANAGED },
    Case { name: LIMITED, ..MANAGED },
    Case { name: "limited", rules: None, ..MANAGED },
    Case { name: "limited, not shared", ksm: false, ..MANAGED },
    Case { name: "limited, managed, guests swap", guest_swap: true, ..MANAGED },
    Case { name: "limited, mom", rules: Some(Kind::Mom), ..MANAGED },
    Case { name: "limited, proxmox", rules: Some(Kind::Proxmox), ..MANAGED },
    Case { name: "limited, pi", rules: Some(Kind::Pi), ..MANAGED },
    Case { name: "limited, senpai", rules: Some(Kind::Senpai), ..MANAGED },
];

/// Those that the claims are about: six rounds of them fit into an hour. The others are run when
/// they are named.
pub(crate) const USUAL: &[&str] = &[FREE, SHARED, PAGED, SQUEEZED, LIMITED];

const MANAGED: Case =
    Case { ksm: true, limit: Some(Limit::Quarter), rules: Some(Kind::Pinhead), ..PLAIN };

/// What a guest has of the host's memory that is nobody else's, and that with what is compressed.
pub(crate) const PRIVATE: &str = "private a guest";
pub(crate) const BOTH: &str = "private and compressed a guest";

/// The phases.
pub(crate) mod phase {
    pub const START: &str = "start";
    pub const SETTLE: &str = "settle";
    pub const IDLE: &str = "idle";
    pub const WIPES: [&str; 3] = ["first wipe", "second wipe", "third wipe"];
    pub const HITS: &str = "250 hits";
    pub const REBOOT: &str = "reboot";
    pub const AFTER: &str = "idle after";
    pub const END: &str = "end";
}
