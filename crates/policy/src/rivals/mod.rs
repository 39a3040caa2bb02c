//! Other managers' rules for moving memory between guests, to be compared with ours.
//!
//! ```text
//!   Scene (host, guests, time) ─► Rival::pass ─► Orders ─► Arbiter::follow ─► Pass   (the manager)
//!                                                  └─────► targets of balloons       (the model)
//! ```
//!
//! Each is written from its published formula, named in its file, and is as unsafe as that: it
//! shrinks a starved guest where its original would. Only a guest's own minimum and maximum hold.
//! Pure: time comes in as an argument, and all arithmetic is in whole numbers.

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
    /// Whose rules move memory.
    pub enum Kind {
        /// Ours: the arbiter.
        Pinhead = "pinhead",
        /// oVirt's MOM.
        Mom = "mom",
        /// Proxmox's automatic ballooning.
        Proxmox = "proxmox",
        /// The PI controller of qemus' containers.
        Pi = "pi",
        /// senpai, from which oomd's plugin of that name came.
        Senpai = "senpai",
        /// Page reporting alone: guests have their maximum, and no balloon takes anything.
        Reporting = "reporting",
        /// Nothing is moved.
        None = "none",
    }
}

/// What a pass of a rival came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orders {
    /// The clause of these rules.
    pub clause: Clause,
    /// What of the host they count as free (MOM) or in use (the others), in thousandths.
    pub host_permille: Option<u64>,
    /// The targets that change.
    pub list: Vec<Order>,
}

/// A rival and what it remembers.
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
    /// The rules of that kind; none where the arbiter decides.
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

    /// Whose rules these are.
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

    /// The clause of their decisions.
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

    /// Takes notice and decides nothing.
    pub fn watch(&mut self, scene: &Scene<'_>) {
        if let Rival::Mom(mom) = self {
            mom.watch(scene);
        }
    }

    /// One pass. Guests that nothing can be asked of, or that the operator fixed, get no order.
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

/// Every guest has its maximum: what it frees, its kernel reports to the host by itself (QEMU's
/// virtio-balloon with `free-page-reporting=on`).
fn full(scene: &Scene<'_>) -> Vec<Order> {
    let order = |s: &GuestSample| Order { key: s.key, target: s.limits.max, stall_ms: None };
    scene.samples.iter().map(order).collect()
}

#[cfg(test)]
mod tests;
