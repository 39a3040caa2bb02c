//! The number of servers on a pin head: the three experiments of the talk of 2006, with web servers
//! from one template.
//!
//! Sharing equal pages replaces the shared kernel and shared binaries (NSS and DCSS). Compressed
//! memory replaces expanded storage, and a swap file replaces the paging disk. Swap on zram in the
//! guest replaces the virtual disk (VDISK), and the manager's balloon replaces CMM.

mod run;
mod view;

pub use run::run;
pub use view::view;

use policy::rivals::Kind;

/// A way to run the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    name: &'static str,
    /// Maximum number of servers: the first experiment had 40.
    guests_max: u32,
    /// True if equal pages are shared, by the template and by KSM.
    ksm: bool,
    /// Limit of all servers together, if any.
    limit: Option<Limit>,
    /// Rules of the manager that moves the servers' memory; `None` without a manager.
    rules: Option<Kind>,
    /// True if the manager also pages out idle guests, to compressed memory of the host.
    pages_out: bool,
    /// True if each server swaps to compressed memory in its own guest.
    guest_swap: bool,
    /// True if one server gets 250 requests, and is then rebooted.
    single: bool,
}

/// Memory of the host for all servers of a case together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// A quarter of the memory that the servers take without sharing.
    Quarter,
    /// The number of servers times this size in MiB.
    EachMib(u32),
}

/// Names of the cases that have promises.
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

/// All cases. A limit of a quarter follows from the memory that the first case took.
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

/// Cases that run by default: the cases with promises. Six rounds of these cases fit into an hour.
/// The other cases run only when they are named.
pub(crate) const USUAL: &[&str] = &[FREE, SHARED, PAGED, SQUEEZED, LIMITED];

const MANAGED: Case =
    Case { ksm: true, limit: Some(Limit::Quarter), rules: Some(Kind::Pinhead), ..PLAIN };

/// Names of measures: a guest's private memory on the host, and its private and compressed memory
/// together.
pub(crate) const PRIVATE: &str = "private a guest";
pub(crate) const BOTH: &str = "private and compressed a guest";

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
