//! Which guests' memory the host's own reclaim is to take (page-out): one pure step.
//!
//! ```text
//!   guests that sleep, the host's swap and pressure ─► PageOut::step ─► Order: take, look
//!                 what a taking gained ─► taken ─┐
//!          what came back, once a minute ─► seen ┴─► Finding: gain, working set, left alone
//! ```
//!
//! All of a sleeper's memory is handed to the kernel, which compresses or swaps it; what the guest
//! touches comes back by itself. What it holds a minute later is its working set, measured. A
//! sleeper is taken once. One that wakes later brings memory back, which costs it time: it is left
//! alone for so long that over the time no more than a small part of its working set a minute
//! came back. Where the host itself is short, that is worth it sooner.
//!
//! While it is, guests that run give what they do not touch, too, behind all that sleep: a part
//! of such a guest's memory is taken, and the next one only if less than half of that came back.

mod kinds;

pub use kinds::{
    Config, Finding, GuestSample, Held, HostSample, Lever, Order, Part, Standing, Taken,
};

use std::collections::BTreeMap;

use counters::Bytes;

use crate::arbiter::Key;

/// What comes back is looked at so long after a taking, and then this often.
pub const LOOK_MS: u64 = 60_000;
/// Memory that may come back after the first minute, in thousandths of the working set a minute:
/// the bound of Google's far memory (0.2 %).
pub const PROMOTION_PERMILLE: u64 = 2;
/// Memory or compressed memory that must be stored before its ratio means anything.
pub const RATED_MIN: Bytes = Bytes::mib(4);
/// What comes back of a part of a guest that runs is looked at so soon: it touches what it needs.
pub const LOOK_PART_MS: u64 = 15_000;
/// So much is taken at once of a guest that runs: one that uses all of it brings back no more.
pub const PART: Bytes = Bytes::mib(256);
/// Of a guest for which that is less than one of so many parts, such a part.
const PARTS: u64 = 16;
/// A guest that is larger is tried with so much of it first.
pub const TRIAL: Bytes = Bytes::mib(32);
/// What is compressed to less than two thirds is worth its CPU time, in thousandths.
pub const RATIO_PERMILLE: u64 = 1500;

/// Less than this is not worth a turn.
const GAIN_MIN: Bytes = Bytes::mib(4);
/// A woken guest is left alone no longer than this.
const REST_MAX_MS: u64 = 48 * 3_600_000;
/// Where the host is short, the rest of a woken guest doubles so often at most.
const DOUBLINGS_MAX: u32 = 6;
/// What begins later than in so long is not waited for.
const SOON_MS: u64 = 5_000;
/// One taking is followed by a pause of so many times its length, so that page-out has a quarter
/// of a core at most; half of one where the host is short.
const PAUSE: u64 = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Never taken, or only in part.
    #[default]
    Fresh,
    /// The order was given.
    Taking,
    /// The minute after.
    Settling,
    /// Its working set is known.
    Out,
    Incompressible,
    Barren,
}

/// What is remembered of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Memory {
    phase: Phase,
    taken_ms: u64,
    looked_ms: u64,
    gained: Bytes,
    /// At the last look.
    held: Held,
    working_set: Option<Bytes>,
    /// What came back since the last taking, beyond its first minute.
    promoted: Bytes,
    times: u32,
    /// How often in a row its taking was ended early, and until when it is left alone for that.
    cuts: u32,
    rest_until_ms: u64,
    /// Whether it ran when it was taken last, and where the next part of it begins.
    ran: bool,
    next: Option<u64>,
}

impl Memory {
    /// It was taken in part, or not at all: it is left alone for longer each time.
    fn rest(&mut self, after_ms: u64, now_ms: u64) {
        let doublings = self.cuts.min(DOUBLINGS_MAX);
        (self.phase, self.next) = (Phase::Fresh, None);
        self.cuts = self.cuts.saturating_add(1);
        self.rest_until_ms = now_ms.saturating_add(after_ms.saturating_mul(1 << doublings));
    }
}

/// The lever: what is remembered from step to step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageOut {
    guests: BTreeMap<Key, Memory>,
    lever: Lever,
    /// How often that became [`Lever::Pressure`].
    alarms: u64,
    /// What swap has room for.
    room: Bytes,
    is_short: bool,
    /// When the last taking ended, and how long it took.
    ended_ms: u64,
    took_ms: u64,
    after_ms: u64,
}

impl PageOut {
    /// Whether anything may be taken, as of the last step.
    pub fn lever(&self) -> Lever {
        self.lever
    }

    /// How often it had to rest because tasks of the host waited for memory.
    pub fn alarms(&self) -> u64 {
        self.alarms
    }

    /// The measured working set of a guest.
    pub fn working_set(&self, guest: Key) -> Option<Bytes> {
        self.guests.get(&guest)?.working_set
    }

    /// What is to be done now: at most one guest is taken.
    pub fn step(
        &mut self,
        config: &Config,
        host: &HostSample,
        guests: &[GuestSample],
        now_ms: u64,
    ) -> Vec<Order> {
        self.guests.retain(|key, _| guests.iter().any(|guest| guest.key == *key));
        let before = std::mem::replace(&mut self.lever, lever(config, host));
        self.alarms += u64::from(self.lever == Lever::Pressure && before != self.lever);
        self.room = room(config, host);
        (self.is_short, self.after_ms) = (host.is_short(), config.after_ms);
        let mut orders = self.looks(now_ms);
        let is_busy = self.guests.values().any(|guest| guest.phase == Phase::Taking);
        if self.lever != Lever::Ready || is_busy || now_ms < self.next_ms(host.is_short()) {
            return orders;
        }
        let ready = guests
            .iter()
            .filter(|g| self.standing(config, g, host.is_short(), now_ms) == Standing::Ready);
        let order = |guest: &&GuestSample| (guest.sleeps(config), self.worth(guest), guest.key);
        if let Some(guest) = ready.max_by_key(order) {
            let memory = self.guests.entry(guest.key).or_default();
            (memory.phase, memory.ran) = (Phase::Taking, !guest.sleeps(config));
            orders.push(if memory.ran {
                let most = PART.max(Bytes(guest.held.unwrap_or(Bytes::ZERO).0 / PARTS));
                // It loses its huge pages with what is taken: no more than the host lacks, and
                // what that takes once it is compressed.
                let enough = Bytes(host.lack.0.saturating_add(host.lack.0 / 2));
                let most = most.min(enough.max(TRIAL));
                let from = memory.next.unwrap_or(0);
                Order::TakePart(guest.key, Part { from, most })
            } else {
                memory.next = None;
                Order::Take(guest.key)
            });
        }
        orders
    }

    /// Whether a taking that was begun may go on.
    pub fn may_go_on(&self, config: &Config, guest: &GuestSample, is_short: bool) -> bool {
        let ran = self.guests.get(&guest.key).is_some_and(|memory| memory.ran);
        let is_as_it_was = match ran {
            true => config.takes_running && is_short,
            false => guest.asleep_ms.is_some(),
        };
        is_as_it_was && !guest.is_in_need && !guest.is_excepted
    }

    fn looks(&mut self, now_ms: u64) -> Vec<Order> {
        let mut looks = Vec::new();
        for (key, guest) in &mut self.guests {
            let is_out = matches!(guest.phase, Phase::Settling | Phase::Out);
            let is_part = guest.phase == Phase::Settling && guest.next.is_some();
            let after_ms = if is_part { LOOK_PART_MS } else { LOOK_MS };
            if is_out && now_ms >= guest.looked_ms.saturating_add(after_ms) {
                guest.looked_ms = now_ms;
                looks.push(Order::Look(*key));
            }
        }
        looks
    }

    /// When the next guest may be taken.
    fn next_ms(&self, is_short: bool) -> u64 {
        let pause = if is_short { 1 } else { PAUSE };
        self.ended_ms.saturating_add(self.took_ms.saturating_mul(pause))
    }

    /// What the host would gain soon by this lever, if it is short: half of what the guests hold
    /// that can be taken, beyond what they are known to need, and of what swap has room for. The
    /// rest is in use, or what compressed memory takes.
    pub fn expected_gain(&self, config: &Config, guests: &[GuestSample], now_ms: u64) -> Bytes {
        let taking = self.taking();
        let is_soon = taking.is_some() || self.next_ms(true) <= now_ms.saturating_add(SOON_MS);
        if self.lever != Lever::Ready || !is_soon {
            return Bytes::ZERO;
        }
        let is_to_come = |guest: &&GuestSample| {
            // Its balloon arrives, and its next part is taken when the last was looked at.
            let still = GuestSample { is_moving: false, ..**guest };
            taking == Some(guest.key)
                || self.is_between_parts(guest)
                || self.standing(config, &still, true, now_ms) == Standing::Ready
        };
        let all: Bytes = guests.iter().filter(is_to_come).map(|guest| self.expected(guest)).sum();
        Bytes(all.min(self.room).0 / 2)
    }

    fn is_between_parts(&self, guest: &GuestSample) -> bool {
        let memory = self.guests.get(&guest.key);
        let is_part = |memory: &Memory| memory.phase == Phase::Settling && memory.next.is_some();
        memory.is_some_and(is_part) && !guest.is_in_need && !guest.is_excepted
    }

    /// What there would be to gain: what it holds beyond what it is known to need.
    fn expected(&self, guest: &GuestSample) -> Bytes {
        let Some(memory) = self.guests.get(&guest.key) else {
            return guest.held.unwrap_or(Bytes::ZERO);
        };
        let held = match memory.phase {
            Phase::Out => Some(memory.held.own),
            _ => guest.held,
        };
        held.unwrap_or(Bytes::ZERO).less(memory.working_set.unwrap_or(Bytes::ZERO))
    }

    /// What is to be gained of a guest, by what that costs it: one that sleeps does not notice, and
    /// of those that run one that runs less brings back less.
    fn worth(&self, guest: &GuestSample) -> Bytes {
        let busy = if guest.asleep_ms.is_some() { 0 } else { guest.busy_percent };
        Bytes(self.expected(guest).0 / busy.saturating_add(1))
    }

    /// How a guest stands.
    pub fn standing(
        &self,
        config: &Config,
        guest: &GuestSample,
        is_short: bool,
        now_ms: u64,
    ) -> Standing {
        let memory = self.guests.get(&guest.key).copied().unwrap_or_default();
        match memory.phase {
            Phase::Taking | Phase::Settling => return Standing::Measured,
            Phase::Incompressible => return Standing::Incompressible,
            Phase::Barren => return Standing::Barren,
            Phase::Fresh | Phase::Out => {}
        }
        if guest.is_excepted {
            return Standing::Excepted;
        }
        if guest.is_in_need || guest.is_moving {
            return Standing::InNeed;
        }
        if now_ms < memory.rest_until_ms {
            return Standing::Resting;
        }
        let expected = self.expected(guest);
        if memory.phase == Phase::Out && memory.next.is_none() {
            let least = GAIN_MIN.max(Bytes(memory.gained.0 / 8));
            if expected < least {
                return Standing::Out;
            }
            if now_ms < memory.taken_ms.saturating_add(rest_ms(config, &memory, is_short)) {
                return Standing::Resting;
            }
        }
        let may_be_taken = guest.sleeps(config) || (config.takes_running && is_short);
        match guest.asleep_ms {
            _ if may_be_taken && expected < GAIN_MIN => Standing::Small,
            _ if may_be_taken => Standing::Ready,
            None => Standing::Awake,
            Some(_) => Standing::Waiting,
        }
    }

    /// What came of an order to take a guest.
    pub fn taken(&mut self, guest: Key, taken: &Taken, now_ms: u64) -> Vec<Finding> {
        (self.ended_ms, self.took_ms) = (now_ms, taken.took_ms);
        let Some(memory) = self.guests.get_mut(&guest) else { return Vec::new() };
        let gained = taken.before.own.less(taken.after.own);
        let goes_on = memory.next.is_some();
        (memory.held, memory.looked_ms, memory.taken_ms) = (taken.after, now_ms, now_ms);
        memory.next = taken.next;
        let mut found = vec![Finding::Gained(gained)];
        let ratio = ratio_permille(taken);
        if let Some(ratio_permille) = ratio.filter(|ratio| *ratio < RATIO_PERMILLE) {
            memory.phase = Phase::Incompressible;
            found.push(Finding::Incompressible { ratio_permille });
        } else if taken.is_cut && memory.ran && !self.is_short {
            // The host has enough: that is nothing against this guest.
            (memory.phase, memory.next) = (Phase::Fresh, None);
        } else if taken.is_cut {
            memory.rest(self.after_ms, now_ms);
        } else if !goes_on && gained < GAIN_MIN.min(Bytes(taken.before.own.0 / 2)) {
            memory.phase = Phase::Barren;
            found.push(Finding::Barren(gained));
        } else {
            memory.phase = Phase::Settling;
            memory.gained = gained;
            memory.promoted = Bytes::ZERO;
            memory.times = memory.times.saturating_add(u32::from(!goes_on));
            memory.cuts = 0;
        }
        found
    }

    /// An order was not carried out. What was only to be looked at is looked at again in time.
    pub fn failed(&mut self, guest: Key, now_ms: u64) {
        let memory = self.guests.get_mut(&guest);
        if let Some(memory) = memory.filter(|memory| memory.phase == Phase::Taking) {
            memory.rest(self.after_ms, now_ms);
        }
    }

    /// What a guest holds, at a look.
    pub fn seen(&mut self, guest: Key, held: Held) -> Option<Finding> {
        let memory = self.guests.get_mut(&guest)?;
        let came_back = came_back(memory.held, held);
        memory.held = held;
        match memory.phase {
            Phase::Settling => {
                memory.phase = Phase::Out;
                if came_back.0 > memory.gained.0 / 2 {
                    // It did not sleep, or it uses that part: that cost it more than it gave, and
                    // another part would, too.
                    (memory.promoted, memory.next) = (came_back, None);
                }
                if memory.next.is_some() {
                    return Some(Finding::CameBack(came_back));
                }
                memory.working_set = Some(held.own);
                Some(Finding::WorkingSet { size: held.own, came_back })
            }
            Phase::Out if came_back > Bytes::ZERO => {
                memory.promoted = memory.promoted.plus(came_back);
                Some(Finding::Promoted(came_back))
            }
            _ => None,
        }
    }

    /// A guest has started from scratch.
    pub fn forget(&mut self, guest: Key) {
        self.guests.remove(&guest);
    }

    /// How long a guest is left alone after it was taken, by what came back of it so far.
    pub fn rest_ms(&self, config: &Config, guest: Key, is_short: bool) -> u64 {
        self.guests.get(&guest).map_or(0, |memory| rest_ms(config, memory, is_short))
    }

    /// Whether a guest ran when it was taken last.
    pub fn ran(&self, guest: Key) -> bool {
        self.guests.get(&guest).is_some_and(|memory| memory.ran)
    }

    /// The guest that is being taken.
    pub fn taking(&self) -> Option<Key> {
        self.guests.iter().find(|(_, memory)| memory.phase == Phase::Taking).map(|(key, _)| *key)
    }
}

/// Whether a trial was stored, and is compressed too badly for the rest to be worth it.
pub fn has_failed(stored: Bytes, takes: Bytes) -> bool {
    stored >= TRIAL && ratio(stored, takes) < RATIO_PERMILLE
}

fn ratio(stored: Bytes, takes: Bytes) -> u64 {
    stored.0.saturating_mul(1000) / takes.0.max(1)
}

/// How well a guest's memory was compressed; `None` where that is not known to be this guest's:
/// others may swap at the same time.
fn ratio_permille(taken: &Taken) -> Option<u64> {
    let (stored, takes) = taken.stored?;
    let gained = taken.before.own.less(taken.after.own);
    let is_its_own = stored.0 >= gained.0 / 2 && stored.0 <= gained.0.saturating_mul(2);
    (is_its_own && stored >= RATED_MIN).then(|| ratio(stored, takes))
}

/// What was in swap and is no longer. A process whose swapped memory cannot be seen holds more.
fn came_back(before: Held, now: Held) -> Bytes {
    match before.swapped {
        Bytes::ZERO => now.own.less(before.own),
        swapped => swapped.less(now.swapped),
    }
}

/// What may still go to swap, or to the compressed memory behind it.
fn room(config: &Config, host: &HostSample) -> Bytes {
    let left = config.swap_max_permille.saturating_sub(host.swap_full_permille.unwrap_or(1000));
    host.swap_total.unwrap_or(Bytes::ZERO).permille(left)
}

fn lever(config: &Config, host: &HostSample) -> Lever {
    match (host.swap_total, host.swap_full_permille) {
        (None, _) | (_, None) => Lever::Unknown,
        (Some(Bytes::ZERO), _) => Lever::NoSwap,
        (_, Some(full)) if full >= config.swap_max_permille => Lever::SwapFull,
        // Without a measure of pressure, swap that fills up is the bound.
        _ if host.pressure.is_some_and(|waited| waited > config.pressure_max) => Lever::Pressure,
        _ => Lever::Ready,
    }
}

/// How long a guest is left alone after it was taken, by what came back of it.
fn rest_ms(config: &Config, memory: &Memory, is_short: bool) -> u64 {
    if is_short {
        let doublings = memory.times.saturating_sub(1).min(DOUBLINGS_MAX);
        return config.after_ms.saturating_mul(1 << doublings);
    }
    let allowed_a_minute = memory.working_set.map_or(0, |size| size.permille(PROMOTION_PERMILLE).0);
    let minutes = memory.promoted.0 / allowed_a_minute.max(1);
    minutes.saturating_mul(60_000).clamp(config.after_ms, REST_MAX_MS)
}

#[cfg(test)]
mod tests;
