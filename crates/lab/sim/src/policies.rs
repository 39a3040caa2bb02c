//! Common interface of all policies: pinhead's unchanged policy, and the policies of other
//! managers.

use base::Bytes;
use policy::arbiter::{Arbiter, Clause, Config, GuestSample, HostSample, Key, Pass, RuleVerdicts};
use policy::rivals::{self, Kind, Rival};

/// Time after its deadline for which a reservation keeps its memory.
const HELD_MS: u64 = 30_000;

/// The input of a policy.
pub struct Scene<'a> {
    /// Settings of the host.
    pub config: &'a Config,
    /// Current time.
    pub now_ms: u64,
    /// Host.
    pub host: HostSample,
    /// Guests.
    pub samples: &'a [GuestSample],
}

/// A target for one balloon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Guest.
    pub key: Key,
    /// Size before.
    pub from: Bytes,
    /// Target size of the guest.
    pub target: Bytes,
    /// Part of the policy that decided, if the policy names it.
    pub clause: Option<Clause>,
}

/// A policy that decides about balloons.
pub trait Policy {
    /// Returns the targets for the current time.
    fn pass(&mut self, scene: &Scene<'_>) -> Vec<Order>;

    /// Returns true for the policy of page reporting, under which guests have all of their memory
    /// from the start.
    fn is_reporting(&self) -> bool {
        false
    }

    /// Watches without acting.
    fn watch(&mut self, _scene: &Scene<'_>) {}

    /// Returns the targets that a surviving process sets after the policy's process has died. By
    /// default there are no targets, and balloons keep their sizes.
    fn after_death(&mut self, _scene: &Scene<'_>) -> Vec<Order> {
        Vec::new()
    }

    /// Records that a guest restarted.
    fn rebooted(&mut self, _key: Key) {}

    /// Reserves memory for a guest that is about to start.
    fn reserve(&mut self, _id: u64, _size: Bytes, _deadline_ms: u64) {}
}

impl Scene<'_> {
    /// Returns the scene as a rival sees it. The model's host never waits for memory.
    fn seen(&self) -> rivals::Scene<'_> {
        rivals::Scene {
            now_ms: self.now_ms,
            host: Some(&self.host),
            host_psi_permille: None,
            samples: self.samples,
        }
    }
}

impl Policy for Rival {
    fn is_reporting(&self) -> bool {
        matches!(self, Rival::Reporting)
    }

    fn watch(&mut self, scene: &Scene<'_>) {
        Rival::watch(self, &scene.seen());
    }

    fn pass(&mut self, scene: &Scene<'_>) -> Vec<Order> {
        let orders = Rival::pass(self, &scene.seen());
        let one = |order: rivals::Order| {
            let from = scene.samples.iter().find(|s| s.key == order.key)?.actual?;
            Some(Order { key: order.key, from, target: order.target, clause: Some(orders.clause) })
        };
        orders.list.into_iter().filter_map(one).collect()
    }
}

/// Returns the policy of that kind.
pub fn of(kind: Kind) -> Box<dyn Policy> {
    match Rival::of(kind) {
        Some(rival) => Box::new(rival),
        None => Box::new(Ours::default()),
    }
}

/// A wrapper in which another policy watches without acting.
pub struct Watching<'a>(pub &'a mut dyn Policy);

impl Policy for Watching<'_> {
    fn is_reporting(&self) -> bool {
        self.0.is_reporting()
    }

    fn pass(&mut self, scene: &Scene<'_>) -> Vec<Order> {
        self.0.watch(scene);
        Vec::new()
    }
}

/// A policy after the death of its process.
pub struct Dead<'a>(pub &'a mut dyn Policy);

impl Policy for Dead<'_> {
    fn is_reporting(&self) -> bool {
        self.0.is_reporting()
    }

    fn pass(&mut self, scene: &Scene<'_>) -> Vec<Order> {
        self.0.after_death(scene)
    }
}

/// The arbiter as a policy.
#[derive(Default)]
pub struct Ours {
    /// The arbiter.
    pub arbiter: Arbiter,
    /// Last pass of the arbiter.
    pub last: Pass,
}

impl Policy for Ours {
    fn pass(&mut self, scene: &Scene<'_>) -> Vec<Order> {
        let mut verdicts = |_, _: &_| RuleVerdicts::default();
        let host = Some(&scene.host);
        self.last =
            self.arbiter.pass(scene.config, host, scene.samples, &mut verdicts, scene.now_ms);
        let decisions = self.last.decisions.iter();
        decisions
            .filter_map(|d| {
                let target = d.command?;
                Some(Order { key: d.key, from: d.from, target, clause: Some(d.clause) })
            })
            .collect()
    }

    fn rebooted(&mut self, key: Key) {
        self.arbiter.rebooted(key);
    }

    fn reserve(&mut self, id: u64, size: Bytes, deadline_ms: u64) {
        // A scenario has too few reservations for a refusal.
        let _ = self.arbiter.reserve(id, size, deadline_ms, deadline_ms + HELD_MS);
    }
}
