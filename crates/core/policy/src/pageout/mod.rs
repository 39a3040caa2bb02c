//! Page-out. A pure step selects the guests for the host's own reclaim.
//!
//! ```text
//!   guests that sleep, the host's swap and pressure ─► PageOut::step ─► Order: take, look
//!                     gain of a taking ─► taken ─┐
//!             memory seen, once a minute ─► seen ┴─► Finding: gain, working set, left alone
//! ```
//!
//! All memory of a sleeping guest is passed to the kernel, which compresses or swaps it. Memory
//! that the guest touches is faulted in again. The resident memory a minute later is the measured
//! working set. A sleeping guest is paged out once. A guest that wakes later loses time while it
//! faults memory in. Such a guest rests: it is not paged out again for a time. The rest is long
//! enough that, on average, only a small part of the working set is faulted in per minute. The rest
//! is shorter while the host is short of memory.
//!
//! On a host with room, page-out first waits for guests at work, for at most half a minute. A guest
//! that was parked on request is paged out at once.
//!
//! On a host short of memory, untouched memory of running guests is paged out too, after all
//! sleeping guests. A first part of such a guest's memory is paged out. The next part follows only
//! if at most half of the first part became resident again.

mod kinds;

pub use kinds::{
    Config, Finding, GuestSample, Held, HostSample, Lever, Order, Part, Standing, Taken,
};

use std::collections::BTreeMap;

use base::Bytes;

use crate::arbiter::Key;

/// Delay of the first measurement after a page-out, and interval of all later measurements.
pub const LOOK_MS: u64 = 60_000;
/// Memory that may be faulted in per minute, after the first minute, in thousandths of the working
/// set. This is the bound of Google's far memory (0.2 %).
pub const PROMOTION_PERMILLE: u64 = 2;
/// Least amount of stored memory for a meaningful compression ratio.
pub const RATED_MIN: Bytes = Bytes::mib(4);
/// Delay of the measurement after a part of a running guest. A running guest soon touches the
/// memory that it needs.
pub const LOOK_PART_MS: u64 = 15_000;
/// Amount of a running guest's memory that is paged out at once. The amount also limits the memory
/// that the guest may have to fault in again.
pub const PART: Bytes = Bytes::mib(256);
/// Number of parts of a large guest. Such parts are larger than `PART`.
const PARTS: u64 = 16;
/// Memory that is paged out first, as a trial, in a guest that has more memory.
pub const TRIAL: Bytes = Bytes::mib(32);
/// Compression ratio that is worth its CPU time, in thousandths. The compressed size is then below
/// two thirds.
pub const RATIO_PERMILLE: u64 = 1500;

/// Smallest gain that is worth a page-out.
const GAIN_MIN: Bytes = Bytes::mib(4);
/// Longest time for which a woken guest is not paged out.
const REST_MAX_MS: u64 = 48 * 3_600_000;
/// Largest number of doublings of a rest.
const DOUBLINGS_MAX: u32 = 6;
/// Time within which a page-out must begin, or else balloons do not wait for its gain.
const SOON_MS: u64 = 5_000;
/// CPU usage from which a guest counts as at work, in percent of one CPU.
const WORKS_PERCENT: u64 = 50;
/// Longest time for which page-out waits for guests at work, while the host has room. Compression
/// takes memory bandwidth and CPU time from these guests, and their work may end soon.
const YIELD_MS: u64 = 30_000;
/// Pause after a page-out, in multiples of the page-out's duration. Page-out thus uses at most a
/// quarter of a core, and half of a core while the host is short of memory.
const PAUSE: u64 = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Never paged out, or only in part.
    #[default]
    Fresh,
    /// The order was given.
    Taking,
    /// The minute after the page-out.
    Settling,
    /// The working set is known.
    Out,
    Incompressible,
    Barren,
}

/// State kept about a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Memory {
    phase: Phase,
    taken_ms: u64,
    looked_ms: u64,
    gained: Bytes,
    /// Memory at the last measurement.
    held: Held,
    working_set: Option<Bytes>,
    /// Memory that became resident since the last page-out, after its first minute.
    promoted: Bytes,
    times: u32,
    /// Number of consecutive page-outs that ended early, and the end of the rest after them.
    cuts: u32,
    rest_until_ms: u64,
    /// True if the guest ran at its last page-out, and the start of its next part.
    ran: bool,
    next: Option<u64>,
}

impl Memory {
    /// Begins a rest after a page-out that failed or ended early. Each further rest is longer.
    fn rest(&mut self, after_ms: u64, now_ms: u64) {
        let doublings = self.cuts.min(DOUBLINGS_MAX);
        (self.phase, self.next) = (Phase::Fresh, None);
        self.cuts = self.cuts.saturating_add(1);
        self.rest_until_ms = now_ms.saturating_add(after_ms.saturating_mul(1 << doublings));
    }
}

/// Page-out on a host, with its state between steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageOut {
    guests: BTreeMap<Key, Memory>,
    lever: Lever,
    /// Number of changes to [`Lever::Pressure`].
    alarms: u64,
    /// Free room in swap.
    room: Bytes,
    is_short: bool,
    /// End and length of the last page-out.
    ended_ms: u64,
    took_ms: u64,
    after_ms: u64,
    /// Time since which page-out waits for guests at work, or has waited for them.
    yields_since_ms: Option<u64>,
    /// True after an order, until a later step has found no guest to page out.
    has_more: bool,
}

impl PageOut {
    /// Returns the state of page-out at the last step.
    pub fn lever(&self) -> Lever {
        self.lever
    }

    /// Returns the number of pauses because tasks of the host waited for memory.
    pub fn alarms(&self) -> u64 {
        self.alarms
    }

    /// Returns true while page-out goes from guest to guest, so that the next step is due soon.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Returns the measured working set of a guest.
    pub fn working_set(&self, guest: Key) -> Option<Bytes> {
        self.guests.get(&guest)?.working_set
    }

    /// Returns the orders for now, with at most one guest to page out.
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
        self.has_more &= self.lever == Lever::Ready;
        let mut orders = self.looks(now_ms);
        let is_busy = self.guests.values().any(|guest| guest.phase == Phase::Taking);
        if self.lever != Lever::Ready || is_busy || now_ms < self.next_ms(host.is_short()) {
            return orders;
        }
        let yields = self.yields(host, guests, now_ms);
        let ready = guests
            .iter()
            .filter(|guest| !yields || guest.is_parked())
            .filter(|g| self.standing(config, g, host.is_short(), now_ms) == Standing::Ready);
        let order = |guest: &&GuestSample| (guest.sleeps(config), self.worth(guest), guest.key);
        let next = ready.max_by_key(order);
        self.has_more = next.is_some();
        if let Some(guest) = next {
            let memory = self.guests.entry(guest.key).or_default();
            (memory.phase, memory.ran) = (Phase::Taking, !guest.sleeps(config));
            orders.push(if memory.ran {
                let most = PART.max(Bytes(guest.held.unwrap_or(Bytes::ZERO).0 / PARTS));
                // Page-out breaks up huge pages, so it reclaims no more than the host lacks. An
                // additional half covers the compressed memory itself.
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

    /// Returns true while page-out waits for guests at work. Nobody needs its gain on a host with
    /// room.
    fn yields(&mut self, host: &HostSample, guests: &[GuestSample], now_ms: u64) -> bool {
        let works = |guest: &GuestSample| guest.busy_percent >= WORKS_PERCENT;
        if host.is_short() || !guests.iter().any(works) {
            self.yields_since_ms = None;
            return false;
        }
        let since_ms = *self.yields_since_ms.get_or_insert(now_ms);
        now_ms.saturating_sub(since_ms) < YIELD_MS
    }

    /// Returns true if a running page-out may continue.
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

    /// Returns the time from which the next guest may be paged out.
    fn next_ms(&self, is_short: bool) -> u64 {
        let pause = if is_short { 1 } else { PAUSE };
        self.ended_ms.saturating_add(self.took_ms.saturating_mul(pause))
    }

    /// Returns the gain expected soon on a host short of memory. The gain is half of the memory
    /// that can be paged out, without known working sets and within the room in swap. The other
    /// half is in use, or is needed for the compressed memory.
    pub fn expected_gain(&self, config: &Config, guests: &[GuestSample], now_ms: u64) -> Bytes {
        let taking = self.taking();
        let is_soon = taking.is_some() || self.next_ms(true) <= now_ms.saturating_add(SOON_MS);
        if self.lever != Lever::Ready || !is_soon {
            return Bytes::ZERO;
        }
        let is_to_come = |guest: &&GuestSample| {
            // A moving balloon stops soon, and the next part follows the measurement of the last
            // part.
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

    /// Returns the memory of a guest above its known working set.
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

    /// Returns the expected gain from a guest, reduced for a busy guest. A sleeping guest does not
    /// notice a page-out, and a less busy guest faults in less memory.
    fn worth(&self, guest: &GuestSample) -> Bytes {
        let busy = if guest.asleep_ms.is_some() { 0 } else { guest.busy_percent };
        Bytes(self.expected(guest).0 / busy.saturating_add(1))
    }

    /// Returns the state of a guest for page-out.
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

    /// Records the result of an order to page out a guest.
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
            // The page-out ended because the host has enough memory, which does not count as a
            // failure of this guest.
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

    /// Records that an order was not carried out. A missed measurement is repeated later.
    pub fn failed(&mut self, guest: Key, now_ms: u64) {
        let memory = self.guests.get_mut(&guest);
        if let Some(memory) = memory.filter(|memory| memory.phase == Phase::Taking) {
            memory.rest(self.after_ms, now_ms);
        }
    }

    /// Records the memory of a guest at a measurement.
    pub fn seen(&mut self, guest: Key, held: Held) -> Option<Finding> {
        let memory = self.guests.get_mut(&guest)?;
        let came_back = came_back(memory.held, held);
        memory.held = held;
        match memory.phase {
            Phase::Settling => {
                memory.phase = Phase::Out;
                if came_back.0 > memory.gained.0 / 2 {
                    // The guest was awake, or uses the part. The page-out cost more than it gained,
                    // and the next part would also cost more.
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

    /// Forgets a guest that has restarted.
    pub fn forget(&mut self, guest: Key) {
        self.guests.remove(&guest);
    }

    /// Returns the time for which a guest is not paged out again. The time depends on the memory
    /// that became resident so far.
    pub fn rest_ms(&self, config: &Config, guest: Key, is_short: bool) -> u64 {
        self.guests.get(&guest).map_or(0, |memory| rest_ms(config, memory, is_short))
    }

    /// Returns true if a guest ran at its last page-out.
    pub fn ran(&self, guest: Key) -> bool {
        self.guests.get(&guest).is_some_and(|memory| memory.ran)
    }

    /// Returns the guest that is being paged out.
    pub fn taking(&self) -> Option<Key> {
        self.guests.iter().find(|(_, memory)| memory.phase == Phase::Taking).map(|(key, _)| *key)
    }
}

/// Returns true if a trial was stored and compresses so badly that page-out of the remaining memory
/// is not worth its cost.
pub fn has_failed(stored: Bytes, takes: Bytes) -> bool {
    stored >= TRIAL && ratio(stored, takes) < RATIO_PERMILLE
}

fn ratio(stored: Bytes, takes: Bytes) -> u64 {
    stored.0.saturating_mul(1000) / takes.0.max(1)
}

/// Returns the compression ratio of a guest's memory; `None` if other processes may have swapped at
/// the same time.
fn ratio_permille(taken: &Taken) -> Option<u64> {
    let (stored, takes) = taken.stored?;
    let gained = taken.before.own.less(taken.after.own);
    let is_its_own = stored.0 >= gained.0 / 2 && stored.0 <= gained.0.saturating_mul(2);
    (is_its_own && stored >= RATED_MIN).then(|| ratio(stored, takes))
}

/// Returns the memory that left swap. If a process's swap is unknown, the growth of its resident
/// memory counts instead.
fn came_back(before: Held, now: Held) -> Bytes {
    match before.swapped {
        Bytes::ZERO => now.own.less(before.own),
        swapped => swapped.less(now.swapped),
    }
}

/// Returns the free room in swap, or in the compressed memory behind it.
fn room(config: &Config, host: &HostSample) -> Bytes {
    let left = config.swap_max_permille.saturating_sub(host.swap_full_permille.unwrap_or(1000));
    host.swap_total.unwrap_or(Bytes::ZERO).permille(left)
}

fn lever(config: &Config, host: &HostSample) -> Lever {
    match (host.swap_total, host.swap_full_permille) {
        (None, _) | (_, None) => Lever::Unknown,
        (Some(Bytes::ZERO), _) => Lever::NoSwap,
        (_, Some(full)) if full >= config.swap_max_permille => Lever::SwapFull,
        // If the host does not measure pressure, only the fill level of swap limits page-out.
        _ if host.pressure.is_some_and(|waited| waited > config.pressure_max) => Lever::Pressure,
        _ => Lever::Ready,
    }
}

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
