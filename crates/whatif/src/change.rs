//! The world in which recorded passes are decided again, as far as it is another.

use base::Bytes;
use model::GuestIdentity;
use policy::arbiter::{Config, Key, Limits};
use policy::rivals::Kind;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The plan by which a host of so much memory is kept.
pub type PlanOf = Box<dyn Fn(Bytes) -> Config>;
/// The entitlement of a guest of this name, which could get this at most.
pub type LimitsOf = Box<dyn Fn(&str, Bytes) -> Limits>;

/// A change of the entitlement of a guest of this name.
pub type Adjust = Box<dyn Fn(&str, Limits) -> Limits>;
/// A change of the plan by which the host was kept.
pub type Replan = Box<dyn Fn(Config) -> Config>;

/// The differences from what was recorded. There are none at first.
#[derive(Default)]
pub struct Change {
    /// The kind of rules that decide.
    pub kind: Option<Kind>,
    /// The plan by which the host is kept.
    pub plan: Option<PlanOf>,
    /// The entitlements of guests.
    pub limits: Option<LimitsOf>,
    /// A change of these, for some of them.
    pub adjust: Option<Adjust>,
    /// A change of the plan.
    pub replan: Option<Replan>,
    /// The memory that the host has, or that guests may use together.
    pub total: Option<Bytes>,
    /// Growth of what the programs of each guest use, in thousandths.
    pub growth_permille: u64,
    /// Guests that are added, and the pattern of the names of those that they are like.
    pub more: Option<(u32, String)>,
}

impl Change {
    /// Returns whether nothing is different.
    pub fn is_none(&self) -> bool {
        self.kind.is_none()
            && self.plan.is_none()
            && self.limits.is_none()
            && self.adjust.is_none()
            && self.replan.is_none()
            && self.total.is_none()
            && self.growth_permille == 0
            && self.more.is_none()
    }
}

/// The guests behind keys.
pub(crate) type Names = BTreeMap<Key, Arc<GuestIdentity>>;
