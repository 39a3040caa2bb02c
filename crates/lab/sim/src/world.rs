//! The host, its guests, and time.

use crate::guest::{Guest, STEP_MS, Spec};
use crate::load::Load;
use crate::member::Member;
pub use crate::member::{Line, Rival};
use crate::policies::{Order, Policy, Scene};
use base::{Bytes, Rng};
use policy::arbiter::{Config, GuestSample, HostSample, Key};

/// Interval of passes. A reported need starts a pass immediately.
pub const PASS_MS: u64 = 1000;

/// An event at a certain time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A guest starts.
    Come(Spec, Line),
    /// A guest ends.
    Go(Key),
    /// A guest reboots in the same process.
    Reboot(Key),
    /// Memory is reserved for a guest that is about to start.
    Reserve {
        /// Identifier of the reservation.
        id: u64,
        /// Size.
        kib: u64,
        /// Time limit of the reservation.
        within_ms: u64,
    },
}

/// The host and everything on it.
#[derive(Clone, Debug)]
pub struct World {
    /// Settings of the host.
    pub config: Config,
    /// Time since the start.
    pub now_ms: u64,
    /// Memory of the host.
    pub total_kib: u64,
    /// Memory that the host uses apart from its guests.
    pub own: Load,
    /// Guests.
    pub members: Vec<Member>,
    /// Future events, the next one at the end.
    pub events: Vec<(u64, Event)>,
    /// Maximum memory that the host had to swap at any time.
    pub swapped_kib_max: u64,
    rng: Rng,
    keys: u64,
    due: bool,
}

/// One pass of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The policy's sample of the host.
    pub host: HostSample,
    /// The policy's samples of the guests.
    pub samples: Vec<GuestSample>,
    /// Orders of the policy.
    pub orders: Vec<Order>,
}

impl World {
    /// Creates a host without guests.
    pub fn new(config: Config, total_kib: u64, own: Load, seed: u64) -> World {
        World {
            config,
            now_ms: 0,
            total_kib,
            own,
            members: Vec::new(),
            events: Vec::new(),
            swapped_kib_max: 0,
            rng: Rng::new(seed),
            keys: 0,
            due: false,
        }
    }

    /// Adds a guest.
    pub fn come(&mut self, spec: Spec, line: Line) -> Key {
        self.keys += 1;
        let key = Key(self.keys);
        self.members.push(Member::new(key, Guest::boot(spec, self.now_ms), line));
        key
    }

    /// Returns the guest with this key.
    pub fn member(&self, key: Key) -> Option<&Member> {
        self.members.iter().find(|m| m.key == key)
    }

    /// Lets other processes of the host take all memory that guests do not hold, except this much.
    pub(crate) fn leave_free(&mut self, free_kib: u64) {
        let guests: u64 = self.members.iter().map(|m| m.guest.seen_kib()).sum();
        self.own = Load::Steady { kib: self.total_kib.saturating_sub(guests + free_kib) };
    }

    /// Returns the host's free memory.
    pub fn available_kib(&self) -> u64 {
        self.total_kib.saturating_sub(self.used_kib())
    }

    /// Returns the memory that the host uses, or would use if it had enough.
    pub fn used_kib(&self) -> u64 {
        let guests: u64 = self.members.iter().map(|m| m.guest.seen_kib()).sum();
        self.own.at(self.now_ms) + guests
    }

    /// Runs one step of time, and then the policy if a pass is due.
    pub fn step(&mut self, policy: &mut dyn Policy) -> Option<Round> {
        self.now_ms += STEP_MS;
        let now_ms = self.now_ms;
        while self.events.last().is_some_and(|(at_ms, _)| *at_ms <= now_ms) {
            if let Some((_, event)) = self.events.pop() {
                self.happen(event, policy);
            }
        }
        for member in &mut self.members {
            if policy.is_reporting() {
                member.guest.report_pages();
            }
            self.due |= member.step(now_ms);
            let line = member.line;
            if (now_ms + line.before_ms).is_multiple_of(PASS_MS)
                && !self.rng.permille(line.lost_permille)
            {
                let late = self.rng.permille(line.late_permille);
                let due_ms = now_ms + if late { line.late_ms } else { 0 };
                member.sample(now_ms, due_ms);
            }
        }
        self.swapped_kib_max =
            self.swapped_kib_max.max(self.used_kib().saturating_sub(self.total_kib));
        (now_ms.is_multiple_of(PASS_MS) || self.due).then(|| self.round(policy))
    }

    fn happen(&mut self, event: Event, policy: &mut dyn Policy) {
        match event {
            Event::Come(spec, line) => {
                self.come(spec, line);
            }
            Event::Go(key) => self.members.retain(|m| m.key != key),
            Event::Reboot(key) => {
                if let Some(member) = self.members.iter_mut().find(|m| m.key == key) {
                    member.reboot(self.now_ms);
                    policy.rebooted(key);
                }
            }
            Event::Reserve { id, kib, within_ms } => {
                policy.reserve(id, Bytes(kib << 10), self.now_ms + within_ms);
            }
        }
    }

    fn round(&mut self, policy: &mut dyn Policy) -> Round {
        let now_ms = self.now_ms;
        self.due = false;
        let host = HostSample {
            at_ms: now_ms,
            total: Bytes(self.total_kib << 10),
            available: Bytes(self.available_kib() << 10),
            strained: self.used_kib() > self.total_kib,
            page_out: Bytes::ZERO,
        };
        let samples: Vec<GuestSample> = self.members.iter_mut().map(|m| m.report(now_ms)).collect();
        let scene = Scene { config: &self.config, now_ms, host, samples: &samples };
        let orders = policy.pass(&scene);
        for order in &orders {
            if let Some(member) = self.members.iter_mut().find(|m| m.key == order.key) {
                member.guest.balloon.set_target(order.target.0 >> 10);
                member.target = Some(order.target);
            }
        }
        Round { host, samples, orders }
    }
}
