//! Other managers' rules for moving memory between guests, for comparison with pinhead's.
//!
//! ```text
//!   Scene (host, guests, time) ─► Rival::pass ─► Orders ─► Arbiter::follow ─► Pass   (the manager)
//!                                                  └─────► targets of balloons       (the model)
//! ```
//!
//! Each rule follows its published formula, which is named in the rule's file. The rule is as
//! unsafe as the original: it shrinks a starved guest if the original would do so. Only a guest's
//! own minimum and maximum are respected. The rules are pure. Time is an argument, and all
//! arithmetic is in whole numbers.

mod mom;
mod pi;
mod proxmox;
mod scene;
mod senpai;

pub use mom::Mom;
pub use pi::Pi;
pub use proxmox::Proxmox;
pub use scene::{Order, Scene};
pub use senpai::Senpai;

use crate::arbiter::{Clause, GuestSample, Mode};
use base::named;

named! {
    /// The rules that move memory.
    pub enum Kind {
        /// Pinhead's own rules: the arbiter.
        Pinhead = "pinhead",
        /// oVirt's MOM.
        Mom = "mom",
        /// Proxmox's automatic ballooning.
        Proxmox = "proxmox",
        /// The PI controller of qemus' containers.
        Pi = "pi",
        /// senpai, the origin of oomd's plugin of that name.
        Senpai = "senpai",
        /// Page reporting alone. Guests have their maximum, and no balloon inflates.
        Reporting = "reporting",
        /// Nothing is moved.
        None = "none",
    }
}

/// The result of a rival's pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orders {
    /// Clause of these rules.
    pub clause: Clause,
    /// Part of the host's memory that counts as free (MOM) or in use (other rules), in thousandths.
    pub host_permille: Option<u64>,
    /// Targets that change.
    pub list: Vec<Order>,
}

/// A rival with its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rival {
    /// oVirt's MOM.
    Mom(Mom),
    /// Proxmox.
    Proxmox(Proxmox),
    /// qemus' PI controller.
    Pi(Pi),
    /// senpai.
    Senpai(Senpai),
    /// Every guest has its maximum.
    Reporting,
    /// Nothing is moved.
    None,
}

impl Rival {
    /// Returns the rules of that kind; `None` if the arbiter decides.
    pub fn of(kind: Kind) -> Option<Rival> {
        Some(match kind {
            Kind::Pinhead => return None,
            Kind::Mom => Rival::Mom(Mom::default()),
            Kind::Proxmox => Rival::Proxmox(Proxmox::default()),
            Kind::Pi => Rival::Pi(Pi::default()),
            Kind::Senpai => Rival::Senpai(Senpai::default()),
            Kind::Reporting => Rival::Reporting,
            Kind::None => Rival::None,
        })
    }

    /// Returns the kind of these rules.
    pub fn kind(&self) -> Kind {
        match self {
            Rival::Mom(_) => Kind::Mom,
            Rival::Proxmox(_) => Kind::Proxmox,
            Rival::Pi(_) => Kind::Pi,
            Rival::Senpai(_) => Kind::Senpai,
            Rival::Reporting => Kind::Reporting,
            Rival::None => Kind::None,
        }
    }

    /// Returns the clause of these rules' decisions.
    pub fn clause(&self) -> Clause {
        match self {
            Rival::Mom(_) => Clause::Mom,
            Rival::Proxmox(_) => Clause::Proxmox,
            Rival::Pi(_) => Clause::Pi,
            Rival::Senpai(_) => Clause::Senpai,
            Rival::Reporting => Clause::Reporting,
            Rival::None => Clause::NoPolicy,
        }
    }

    /// Collects samples without a decision.
    pub fn watch(&mut self, scene: &Scene<'_>) {
        if let Rival::Mom(mom) = self {
            mom.watch(scene);
        }
    }

    /// Runs one pass. Guests that the operator fixed, or that already have their target size, get
    /// no order.
    pub fn pass(&mut self, scene: &Scene<'_>) -> Orders {
        let clause = self.clause();
        let (host_permille, mut list) = match self {
            Rival::Mom(mom) => mom.pass(scene),
            Rival::Proxmox(proxmox) => proxmox.pass(scene),
            Rival::Pi(pi) => pi.pass(scene),
            Rival::Senpai(senpai) => (None, senpai.pass(scene)),
            Rival::Reporting => (None, full(scene)),
            Rival::None => (None, Vec::new()),
        };
        list.retain_mut(|order| {
            let Some(sample) = scene.samples.iter().find(|s| s.key == order.key) else {
                return false;
            };
            let limits = sample.limits;
            order.target = order.target.max(limits.min).min(limits.max);
            limits.mode == Mode::Managed && Some(order.target) != sample.actual
        });
        Orders { clause, host_permille, list }
    }
}

/// Gives every guest its maximum. The guests' kernels report freed pages to the host by themselves
/// (QEMU's virtio-balloon with `free-page-reporting=on`).
fn full(scene: &Scene<'_>) -> Vec<Order> {
    let order = |s: &GuestSample| Order { key: s.key, target: s.limits.max, stall_ms: None };
    scene.samples.iter().map(order).collect()
}

#[cfg(test)]
mod tests;
