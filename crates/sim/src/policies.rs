//! What all policies have in common: ours as it is, and those of other managers.

use counters::Bytes;
use policy::arbiter::{Arbiter, Clause, Config, GuestSample, HostSample, Key, Pass, RuleVerdicts};
use policy::rivals::{self, Kind, Rival};

/// A reservation that is held is kept for so long.
const HELD_MS: u64 = 30_000;

/// A policy's input.
pub struct Scene<'a> {
    /// How the host is to be kept.
    pub config: &'a Config,
    /// The time.
    pub now_ms: u64,
    /// The host.
    pub host: HostSample,
    /// The guests.
    pub samples: &'a [GuestSample],
}

/// A target for one balloon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Whose.
    pub key: Key,
    /// What it had.
    pub from: Bytes,
    /// What it is to have.
    pub target: Bytes,
    /// The part of the policy that decided, where it names it.
    pub clause: Option<Clause>,
}

/// Something that decides about balloons.
pub trait Policy {
    /// What is to be done now.
    fn pass(&mut self, scene: &Scene<'_>) -> Vec<Order>;

    /// Whether it is page reporting: then guests have all of their memory from the start.
    fn is_reporting(&self) -> bool {
        false
    }

    /// Time in which it looks and does nothing.
    fn watch(&mut self, _scene: &Scene<'_>) {}

    /// A guest started again.
    fn rebooted(&mut self, _key: Key) {}

    /// Memory is reserved for a guest that is about to start.
    fn reserve(&mut self, _id: u64, _size: Bytes, _deadline_ms: u64) {}
}

impl Scene<'_> {
    /// What a rival sees of it. The model's host never waits for memory.
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

/// The policy of that kind.
pub fn of(kind: Kind) -> Box<dyn Policy> {
    match Rival::of(kind) {
        Some(rival) => Box::new(rival),
        None => Box::new(Ours::default()),
    }
}

/// Looks through another policy's eyes, and does nothing.
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

/// The arbiter.
#[derive(Default)]
pub struct Ours {
    /// Itself.
    pub arbiter: Arbiter,
    /// Its last pass.
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
        // More than can be open at once are refused, which is an answer, too.
        let _ = self.arbiter.reserve(id, size, deadline_ms, deadline_ms + HELD_MS);
    }
}
