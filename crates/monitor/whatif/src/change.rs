//! Differences between the recorded world and the world of a replay.

use base::Bytes;
use model::GuestIdentity;
use policy::arbiter::{Config, Key, Limits};
use policy::rivals::Kind;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Changes the plan of a host with this much memory.
pub type PlanOf = Box<dyn Fn(Config, Bytes) -> Config>;
/// Changes the limits of the guest with this name.
pub type LimitsOf = Box<dyn Fn(&str, Limits) -> Limits>;

/// Differences from the recording. By default there are none.
#[derive(Default)]
pub struct Change {
    /// Kind of policy that decides.
    pub kind: Option<Kind>,
    /// Plan of the host.
    pub plan: Option<PlanOf>,
    /// Limits of guests.
    pub limits: Option<LimitsOf>,
    /// Memory that the host has, or that guests may use together.
    pub total: Option<Bytes>,
    /// Growth of the memory that each guest's programs use, in thousandths.
    pub growth_permille: u64,
    /// Number of guests to add, and a pattern. The added guests copy the guests with names that
    /// match the pattern.
    pub more: Option<(u32, String)>,
}

impl Change {
    /// Returns true if there is no difference.
    pub fn is_none(&self) -> bool {
        self.kind.is_none()
            && self.plan.is_none()
            && self.limits.is_none()
            && self.total.is_none()
            && self.growth_permille == 0
            && self.more.is_none()
    }
}

pub(crate) type Names = BTreeMap<Key, Arc<GuestIdentity>>;
