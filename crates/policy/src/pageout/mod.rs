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

use std::collections::BTreeMap;

use base::named;
use counters::Bytes;

use crate::arbiter::Key;

/// What comes back is looked at so long after a taking, and then this often.
pub const LOOK_MS: u64 = 60_000;
/// Memory that may come back after the first minute, in thousandths of the working set a minute:
/// the bound of Google's far memory (0.2 %).
pub const PROMOTION_PERMILLE: u64 = 2;
/// Memory or compressed memory that must be stored before its ratio means anything.
pub const RATED_MIN: Bytes = Bytes::mib(4);
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
/// One taking is followed by a pause of so many times its length, so that page-out has a quarter
/// of a core at most; half of one where the host is short.
const PAUSE: u64 = 3;

/// How it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// A guest sleeps whose virtual CPUs have hardly run for so long.
    pub after_ms: u64,
    /// Swap that is fuller than this is left for those that need it at once, in thousandths.
    pub swap_max_permille: u64,
    /// The time in which tasks of the host may wait for memory, in hundredths of a percent.
    pub pressure_max: u64,
}

/// The host at one moment. What is not known is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSample {
    /// The size of its swap.
    pub swap_total: Option<Bytes>,
    /// How full that is, or the compressed memory behind it, in thousandths: the fuller counts.
    pub swap_full_permille: Option<u64>,
    /// The higher of the last 10 and 60 s in which some task waited for memory, in hundredths
    /// of a percent.
    pub pressure: Option<u64>,
    /// It has less free than it is to have.
    pub is_short: bool,
}

/// A guest at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestSample {
    /// Which.
    pub key: Key,
    /// How long its virtual CPUs have hardly run; `None` where that cannot be seen, or they run.
    pub asleep_ms: Option<u64>,
    /// What of it is in the host's memory.
    pub held: Option<Bytes>,
    /// It waits for memory, or its balloon is on its way.
    pub is_in_need: bool,
    /// The settings leave it out, or nothing may be done to it.
    pub is_excepted: bool,
}

/// A process's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// What is in the host's memory and no other's.
    pub own: Bytes,
    /// What is in its swap, compressed or not.
    pub swapped: Bytes,
}

/// What came of a taking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Before.
    pub before: Held,
    /// After.
    pub after: Held,
    /// What compressed memory has stored in that time, and what that takes; `None` where swap is
    /// not compressed.
    pub stored: Option<(Bytes, Bytes)>,
    /// How long it took.
    pub took_ms: u64,
    /// It was ended early: the guest woke, or needs memory.
    pub is_cut: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Hand over all memory of a guest.
    Take(Key),
    /// Look at what a guest holds.
    Look(Key),
}

/// What was found out about a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// So much of it is no longer in memory.
    Gained(Bytes),
    /// So much came back within a minute, and it holds its working set.
    WorkingSet {
        /// What it holds.
        size: Bytes,
        /// What of that had been taken.
        came_back: Bytes,
    },
    /// So much came back later.
    Promoted(Bytes),
    /// Its memory is not compressed enough: it is left alone from now on.
    Incompressible {
        /// Stored for each byte that it takes, in thousandths.
        ratio_permille: u64,
    },
    /// Little of it can be taken at all: it is left alone from now on.
    Barren(Bytes),
}

named! {
    /// Whether anything is taken on this host now, and why not.
    #[derive(Default)]
    pub enum Lever {
        /// Nothing is known of the host.
        #[default]
        Unknown = "unknown",
        /// It may be.
        Ready = "ready",
        /// There is nowhere to put it.
        NoSwap = "no-swap",
        /// Swap is nearly full.
        SwapFull = "swap-full",
        /// The host's tasks wait for memory: page-out would add to that.
        Pressure = "pressure",
    }
}

named! {
    /// How a guest stands.
    pub enum Standing {
        /// It runs, or cannot be seen to sleep.
        Awake = "awake",
        /// It has not slept long enough.
        Waiting = "waits",
        /// It needs memory.
        InNeed = "in-need",
        /// The settings or its state leave it out.
        Excepted = "excepted",
        /// It holds next to nothing.
        Small = "small",
        /// It is next.
        Ready = "ready",
        /// It is being taken, or was a moment ago: its working set is measured.
        Measured = "measured",
        /// It was taken and has brought little back.
        Out = "out",
        /// It has woken and is left alone for a time.
        Resting = "rests",
        /// It does not compress.
        Incompressible = "incompressible",
        /// Little of it can be taken.
        Barren = "barren",
    }
}

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
}

impl Memory {
    /// It was taken in part, or not at all: it is left alone for longer each time.
    fn rest(&mut self, after_ms: u64, now_ms: u64) {
        let doublings = self.cuts.min(DOUBLINGS_MAX);
        self.phase = Phase::Fresh;
        self.cuts = self.cuts.saturating_add(1);
        self.rest_until_ms = now_ms.saturating_add(after_ms.saturating_mul(1 << doublings));
    }
}

/// The lever: what is remembered from step to step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageOut {
    guests: BTreeMap<Key, Memory>,
    lever: Lever,
    next_ms: u64,
    pause: u64,
    after_ms: u64,
}

impl PageOut {
    /// Whether anything may be taken, as of the last step.
    pub fn lever(&self) -> Lever {
        self.lever
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
        self.lever = lever(config, host);
        self.pause = if host.is_short { 1 } else { PAUSE };
        self.after_ms = config.after_ms;
        let mut orders = self.looks(now_ms);
        let is_busy = self.guests.values().any(|guest| guest.phase == Phase::Taking);
        if self.lever != Lever::Ready || is_busy || now_ms < self.next_ms {
            return orders;
        }
        let ready = guests
            .iter()
            .filter(|guest| self.standing(config, guest, host.is_short, now_ms) == Standing::Ready);
        if let Some(guest) = ready.max_by_key(|guest| (self.expected(guest), guest.key)) {
            self.guests.entry(guest.key).or_default().phase = Phase::Taking;
            orders.push(Order::Take(guest.key));
        }
        orders
    }

    fn looks(&mut self, now_ms: u64) -> Vec<Order> {
        let mut looks = Vec::new();
        for (key, guest) in &mut self.guests {
            let is_out = matches!(guest.phase, Phase::Settling | Phase::Out);
            if is_out && now_ms >= guest.looked_ms.saturating_add(LOOK_MS) {
                guest.looked_ms = now_ms;
                looks.push(Order::Look(*key));
            }
        }
        looks
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
        if guest.is_in_need {
            return Standing::InNeed;
        }
        if now_ms < memory.rest_until_ms {
            return Standing::Resting;
        }
        let expected = self.expected(guest);
        if memory.phase == Phase::Out {
            let least = GAIN_MIN.max(Bytes(memory.gained.0 / 8));
            if expected < least {
                return Standing::Out;
            }
            if now_ms < memory.taken_ms.saturating_add(rest_ms(config, &memory, is_short)) {
                return Standing::Resting;
            }
        }
        match guest.asleep_ms {
            None => Standing::Awake,
            Some(asleep_ms) if asleep_ms < config.after_ms => Standing::Waiting,
            Some(_) if expected < GAIN_MIN => Standing::Small,
            Some(_) => Standing::Ready,
        }
    }

    /// What came of an order to take a guest.
    pub fn taken(&mut self, guest: Key, taken: &Taken, now_ms: u64) -> Vec<Finding> {
        self.next_ms = now_ms.saturating_add(taken.took_ms.saturating_mul(self.pause));
        let Some(memory) = self.guests.get_mut(&guest) else { return Vec::new() };
        let gained = taken.before.own.less(taken.after.own);
        (memory.held, memory.looked_ms, memory.taken_ms) = (taken.after, now_ms, now_ms);
        let mut found = vec![Finding::Gained(gained)];
        let ratio = ratio_permille(taken);
        if let Some(ratio_permille) = ratio.filter(|ratio| *ratio < RATIO_PERMILLE) {
            memory.phase = Phase::Incompressible;
            found.push(Finding::Incompressible { ratio_permille });
        } else if taken.is_cut {
            memory.rest(self.after_ms, now_ms);
        } else if gained < GAIN_MIN.min(Bytes(taken.before.own.0 / 2)) {
            memory.phase = Phase::Barren;
            found.push(Finding::Barren(gained));
        } else {
            memory.phase = Phase::Settling;
            memory.gained = gained;
            memory.promoted = Bytes::ZERO;
            memory.times = memory.times.saturating_add(1);
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
                memory.working_set = Some(held.own);
                if came_back.0 > memory.gained.0 / 2 {
                    // It did not sleep: that was no measure, and cost it more than it gave.
                    memory.promoted = came_back;
                }
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
