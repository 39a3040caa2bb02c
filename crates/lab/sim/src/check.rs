//! Conditions that must hold in every scenario, judged by the model's truth.
//!
//! A guest is starved if its tasks waited for memory for 1 % of the last second. The arbiter learns
//! of the wait from the next sample. An order that shrinks a guest is therefore wrong only if the
//! guest had been starved for longer than [`DELAY_MS`] before the order.

use crate::balloon::Fault;
use crate::load::Load;
use crate::member::Member;
use crate::policies::{Order, Ours};
use crate::scenario::{CALM_MS, LENGTH_MS, Scenario};
pub use crate::tally::Tally;
use crate::world::{PASS_MS, Round, World};
use base::Bytes;
use policy::arbiter::{Clause, Fate, Key, STUCK_MS};
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

/// Delay of a sample: the time between two samples, plus a step.
pub const DELAY_MS: u64 = 1_100;
/// Maximum time from a guest's starvation until its balloon stops: the delay of a sample, a pass,
/// and two steps.
const HALT_MS: u64 = DELAY_MS + PASS_MS + 200;
/// Maximum time until a need is met, if there is memory for it.
const NEED_MS: u64 = 30_000;
/// Time from which the host must have its set point.
const SETTLED_MS: u64 = CALM_MS + 180_000;
/// Maximum number of turns of a guest within ten minutes. A turn is a change from growth to
/// shrinking, or back.
const TURNS_MAX: usize = 14;
/// Maximum number of turns under a sawtooth load, which itself turns up to 60 times in ten minutes.
const TURNS_RESTLESS_MAX: usize = 24;
const TURNS_MS: u64 = 600_000;
/// Time after a kill during which the load is not steady.
const AGAIN_MS: u64 = 90_000;
/// Time until a rival's move is visible in the guest's size.
const RIVAL_MS: u64 = 3_000;
/// Window for two moves by a rival. After two moves within this window, the policy must leave the
/// balloon to the rival for `LET_GO_MS`.
const RIVAL_WINDOW_MS: u64 = 55_000;
const LET_GO_MS: u64 = 500_000;
const GIB_KIB: u64 = 1 << 20;

/// The checker of one run.
pub struct Checker {
    guests: BTreeMap<Key, Seen>,
    open: Vec<(u64, u64)>,
    restless: bool,
    low_ms: u64,
    /// Extreme values of the run, which show how close the run came to the limits.
    pub tally: Tally,
}

#[derive(Default)]
struct Seen {
    way: Option<Ordering>,
    turns: VecDeque<u64>,
    asked_ms: Option<(u64, Ordering)>,
    open_ms: Option<(u64, u64)>,
    kills: u64,
    killed_ms: Option<u64>,
    /// True if the last move was for the host's reserve.
    emergency: bool,
    /// Turns after everything has settled.
    calm_turns: u64,
    actual_kib: Option<u64>,
    target: Target,
    shrunk_ms: Option<u64>,
    ordered_ms: u64,
    /// Time of a rival's move, and the guest's size at that time.
    rival: Option<(u64, u64)>,
    rivalled_ms: Option<u64>,
    foreign_ms: Option<u64>,
}

#[derive(Default)]
struct Target {
    last: Option<Bytes>,
    before: Option<Bytes>,
    /// True if the last target is a release. Released memory is not promised to the guest.
    is_released: bool,
}

impl Seen {
    /// Checks that a starving guest is not shrunk. Guests with lost or late samples, or with a
    /// rival, are not checked.
    fn halted(&mut self, member: &Member, now_ms: u64) -> Result<(), String> {
        let actual_kib = member.guest.actual_kib();
        let before_kib = self.actual_kib.replace(actual_kib).unwrap_or(actual_kib);
        let starved_ms = member.starved_ms.map_or(0, |at_ms| now_ms - at_ms);
        let fresh = member.line.lost_permille + member.line.late_permille == 0;
        let shrinks = fresh && member.rival.is_none() && actual_kib < before_kib;
        never(shrinks && starved_ms > HALT_MS, || {
            format!("{:?} is being shrunk, and starves for {starved_ms} ms", member.key)
        })
    }

    /// Records a move that only the rival can have made: there was no other order at that time, and
    /// the guest did not wait. After two such moves the guest's balloon must be left alone.
    fn rivalled(&mut self, member: &Member, now_ms: u64) {
        let Some(rival) = member.rival else { return };
        // A slow balloon moves without a break, so the rival's moves cannot be counted. A lying
        // guest is not checked either, because its false samples may cause moves.
        if member.guest.spec.balloon_kib_s < GIB_KIB / 2 || member.guest.spec.traits.lies {
            return;
        }
        let actual_kib = member.guest.actual_kib();
        if (rival.from_ms..rival.until_ms).contains(&now_ms)
            && now_ms.is_multiple_of(rival.period_ms)
        {
            self.rival = Some((now_ms, actual_kib));
        }
        let Some((at_ms, before_kib)) = self.rival else { return };
        let disturbed = self.ordered_ms + RIVAL_MS > at_ms || member.starved_ms.is_some();
        if disturbed || now_ms < at_ms + RIVAL_MS {
            self.rival = self.rival.filter(|_| !disturbed);
            return;
        }
        self.rival = None;
        if actual_kib.abs_diff(before_kib) < before_kib / 50 {
            return;
        }
        if self.rivalled_ms.is_some_and(|before_ms| at_ms < before_ms + RIVAL_WINDOW_MS) {
            self.foreign_ms = Some((at_ms + LET_GO_MS).min(rival.until_ms));
        }
        self.rivalled_ms = Some(at_ms);
    }
}

impl Checker {
    /// Creates a checker that has seen nothing.
    pub fn new(scenario: &Scenario) -> Checker {
        Checker {
            guests: BTreeMap::new(),
            open: scenario.reservations.clone(),
            restless: scenario.options.restless,
            low_ms: 0,
            tally: Tally::default(),
        }
    }

    /// Checks one step, and the pass made in that step. An error describes the violation.
    pub fn see(&mut self, world: &World, ours: &Ours, round: Option<&Round>) -> Result<(), String> {
        if let Some(round) = round {
            self.reserved(world, ours)?;
            self.stuck(world, ours, round)?;
            self.grants(world, round)?;
            for order in &round.orders {
                self.order(world, round, order)?;
            }
        }
        for member in &world.members {
            self.member(world, member)?;
        }
        self.tally.host_swap_kib = world.swapped_kib_max;
        self.tally.swapping = u64::from(world.swapped_kib_max > 0);
        self.host(world)
    }

    fn order(&mut self, world: &World, round: &Round, order: &Order) -> Result<(), String> {
        self.tally.orders += 1;
        self.tally.lively = 1;
        self.tally.grows += u64::from(order.target > order.from);
        let Some(member) = world.member(order.key) else {
            return Err(format!("{order:?} is for a guest that is not there"));
        };
        let sample = round.samples.iter().find(|s| s.key == order.key);
        let spec = &member.guest.spec;
        let (min, max) = (Bytes(spec.min_kib << 10), Bytes(spec.max_kib << 10));
        let below = order.target < min && order.target < order.from;
        never(below, || format!("{order:?} is below the minimum of {min}"))?;
        never(order.target > max, || format!("{order:?} is above the maximum of {max}"))?;
        let before = self.guests.get(&order.key).and_then(|seen| seen.target.before);
        never(is_for_a_lie(member, order, before), || {
            format!("{order:?} is for a guest that lies")
        })?;
        if order.target < order.from {
            let starved_ms = member.starved_ms.map_or(0, |at_ms| world.now_ms - at_ms);
            never(starved_ms > DELAY_MS, || {
                format!("{order:?} shrinks a guest that starves for {starved_ms} ms")
            })?;
            let memory = sample.and_then(|s| s.memory);
            let fresh = memory.is_some_and(|m| {
                sample.is_some_and(|s| s.idle_since_sample)
                    || world.now_ms - m.at_ms <= world.config.stale_ms
            });
            never(!fresh, || format!("{order:?} shrinks a guest without a fresh sample"))?;
        }
        let seen = self.guests.entry(order.key).or_default();
        let foreign = seen.foreign_ms.is_some_and(|until_ms| world.now_ms < until_ms);
        never(foreign, || format!("{order:?} is for a balloon that another manager moves"))?;
        let way = order.target.cmp(&order.from);
        seen.ordered_ms = world.now_ms;
        if way == Ordering::Less {
            seen.shrunk_ms = Some(world.now_ms);
        }
        if way != Ordering::Equal {
            if seen.way.is_some_and(|before| before != way) {
                seen.turns.push_back(world.now_ms);
                let kills = seen.killed_ms.is_some_and(|at_ms| world.now_ms < at_ms + AGAIN_MS);
                // The host's own safety takes precedence over a guest's rest.
                let calm =
                    !(self.restless || kills || seen.emergency) && world.now_ms >= SETTLED_MS;
                // Two kinds of growth do not count as calm turns. One ends a shrink that gave the
                // host nothing, and the other releases memory that the host no longer needs.
                let returns = [Some(Clause::NoYield), Some(Clause::Room)];
                let calm = calm && !returns.contains(&order.clause);
                seen.calm_turns += u64::from(calm);
            }
            seen.way = Some(way);
            seen.emergency = order.clause == Some(Clause::Emergency);
        }
        while seen.turns.front().is_some_and(|at_ms| at_ms + TURNS_MS < world.now_ms) {
            seen.turns.pop_front();
        }
        self.tally.turns_max = self.tally.turns_max.max(seen.turns.len());
        // A lying guest is not checked, because its changing claims cause its turns.
        let honest = !spec.traits.lies;
        never(honest && seen.calm_turns > 1, || {
            format!("{order:?} is a second turn though nothing changes")
        })?;
        let most = match spec.load {
            Load::Sawtooth { .. } => TURNS_RESTLESS_MAX,
            _ => TURNS_MAX,
        };
        never(honest && seen.turns.len() > most, || {
            format!("{order:?} is one turn too many: {:?}", seen.turns)
        })
    }

    /// Checks that new grants come from memory that is free above the reserve.
    fn grants(&mut self, world: &World, round: &Round) -> Result<(), String> {
        let mut more = false;
        for order in &round.orders {
            let seen = self.guests.entry(order.key).or_default();
            let target = &mut seen.target;
            target.before = target.last.replace(order.target);
            let before = target.before.unwrap_or(order.from);
            let is_new = order.target > order.from.max(before);
            target.is_released = match order.clause {
                Some(Clause::Room) => true,
                // A smaller target after a release is still a release.
                _ => target.is_released && !is_new,
            };
            more |= is_new && !target.is_released;
        }
        let going_kib: u64 = world
            .members
            .iter()
            .filter(|m| m.rival.is_none())
            .filter(|m| self.guests.get(&m.key).is_none_or(|seen| !seen.target.is_released))
            .map(|m| {
                let target_kib = m.target.map_or(0, |t| t.0 >> 10);
                // Growth into memory that is still resident costs the host nothing. A balloon comes
                // to rest slightly off its target.
                let has_kib = m.guest.actual_kib().max(m.guest.seen_kib());
                target_kib.saturating_sub(has_kib + target_kib / 200 + 1024)
            })
            .sum();
        let free_kib = round.host.available.less(world.config.reserve).0 >> 10;
        never(more && going_kib > free_kib, || {
            format!("{going_kib} KiB are granted, and {free_kib} KiB are free")
        })
    }

    fn reserved(&mut self, world: &World, ours: &Ours) -> Result<(), String> {
        for one in &ours.last.reserved {
            self.open.retain(|(id, _)| *id != one.id);
        }
        match self.open.iter().find(|(_, until_ms)| world.now_ms > until_ms + PASS_MS) {
            Some((id, until_ms)) => {
                Err(format!("reservation {id} has no answer {} ms late", world.now_ms - until_ms))
            }
            None => Ok(()),
        }
    }

    /// Checks that a balloon that never moves is reported within `STUCK_MS` and two passes.
    fn stuck(&mut self, world: &World, ours: &Ours, round: &Round) -> Result<(), String> {
        let is_reported = |key| {
            let mut outcomes = ours.last.outcomes.iter();
            outcomes.any(|o| o.key == key && o.result == Fate::Stuck)
        };
        for member in world.members.iter().filter(|m| m.guest.spec.balloon == Fault::Stuck) {
            let seen = self.guests.entry(member.key).or_default();
            // The time starts again if the balloon was reported, its guest was restarted, or the
            // balloon has no reason to move.
            let stays = round.orders.iter().any(|o| o.key == member.key && o.target == o.from);
            if is_reported(member.key) || stays || member.guest.clock_ms(world.now_ms) <= PASS_MS {
                seen.asked_ms = None;
            }
            // The time also starts again with a target in the opposite direction, however small.
            let turns = |o: &&Order| {
                let way = o.target.cmp(&o.from);
                o.key == member.key && seen.asked_ms.is_some_and(|(_, before)| before != way)
            };
            if round.orders.iter().any(|o| turns(&o)) {
                seen.asked_ms = None;
            }
            let asked = round.orders.iter().find(|o| {
                let size = Bytes(o.target.0.abs_diff(o.from.0));
                o.key == member.key && size > Bytes::mib(64).max(o.from.permille(20))
            });
            if let Some(order) = asked {
                let way = order.target.cmp(&order.from);
                seen.asked_ms = seen.asked_ms.or(Some((world.now_ms, way)));
            }
            let silent_ms = seen.asked_ms.map_or(0, |(at_ms, _)| world.now_ms - at_ms);
            if silent_ms > STUCK_MS + 2 * PASS_MS && member.guest.took_back_kib == 0 {
                return Err(format!(
                    "{:?} is stuck for {silent_ms} ms, and not reported",
                    member.key
                ));
            }
        }
        Ok(())
    }

    fn member(&mut self, world: &World, member: &Member) -> Result<(), String> {
        let now_ms = world.now_ms;
        let seen = self.guests.entry(member.key).or_default();
        let kills = member.guest.counters.oom_kills;
        if kills > seen.kills {
            // A killed program restarts, and needs all of its memory at once.
            let again = seen.killed_ms.is_some_and(|at_ms| now_ms < at_ms + AGAIN_MS);
            let shrunk = seen.shrunk_ms.is_some_and(|at_ms| now_ms < at_ms + AGAIN_MS);
            if shrunk && !again && is_quiet(member, now_ms) {
                return Err(format!("{:?} had to kill after it was shrunk", member.key));
            }
            seen.killed_ms = Some(now_ms);
        }
        self.tally.oom_kills += kills.saturating_sub(seen.kills);
        seen.kills = kills;
        seen.rivalled(member, now_ms);
        seen.halted(member, now_ms)?;
        let spec = &member.guest.spec;
        let room_kib = spec.max_kib - member.guest.actual_kib();
        let waits = member.starved_ms.is_some() && room_kib > GIB_KIB / 4;
        if !waits || !is_healthy(member, now_ms) || !can_be_met(world, member) {
            seen.open_ms = None;
            return Ok(());
        }
        let (at_ms, room_kib) = *seen.open_ms.get_or_insert((now_ms, room_kib));
        let open_ms = now_ms - at_ms;
        self.tally.need_ms_max = self.tally.need_ms_max.max(open_ms);
        let slow_ms = room_kib * 1000 / spec.balloon_kib_s.max(1);
        never(open_ms > NEED_MS + slow_ms, || {
            format!("{:?} waits for {open_ms} ms for what is there", member.key)
        })
    }

    /// Checks that the settled host has its set point, if guests can spare the memory.
    fn host(&mut self, world: &World) -> Result<(), String> {
        let wanted_kib = world.config.set_point.0 >> 10;
        let slack_kib = world.total_kib * 2 / 100;
        let lack_kib = wanted_kib.saturating_sub(world.available_kib());
        if world.now_ms < SETTLED_MS || self.restless || lack_kib <= slack_kib {
            self.low_ms = world.now_ms;
            return Ok(());
        }
        let healthy = world.members.iter().filter(|m| is_healthy(m, world.now_ms));
        let spare_kib: u64 = healthy.map(spare_kib).sum();
        if spare_kib <= lack_kib * 3 / 2 {
            self.low_ms = world.now_ms;
            return Ok(());
        }
        let low_ms = world.now_ms - self.low_ms;
        never(low_ms > 60_000, || {
            format!(
                "the host lacks {lack_kib} KiB for {low_ms} ms; guests can spare {spare_kib} KiB"
            )
        })
    }
}

fn never(happened: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if happened { Err(what()) } else { Ok(()) }
}

/// Returns true if the order gives a lying guest more than twice its visible memory plus 64 MiB.
/// `before` is the previous target of the guest.
fn is_for_a_lie(member: &Member, order: &Order, before: Option<Bytes>) -> bool {
    let spec = &member.guest.spec;
    let most_kib = 2 * member.guest.seen_kib() + GIB_KIB / 16;
    // A target does not grant a claim if it reduces an earlier grant, keeps the size of a booting
    // guest, or is a release.
    let is_rest = before.is_some_and(|before| order.target <= before);
    let is_old = is_rest || matches!(order.clause, Some(Clause::Boot | Clause::Room));
    let is_new = !is_old && order.target > order.from;
    let grows = is_new && order.target > Bytes(most_kib << 10);
    spec.traits.lies && spec.traits.resident_seen && grows
}

/// Returns true if nothing disturbs the management of a guest: neither a rival, nor a fault of its
/// balloon, nor missing or false values.
fn is_healthy(member: &Member, now_ms: u64) -> bool {
    let spec = &member.guest.spec;
    let lone = member.rival.is_none_or(|r| now_ms < r.from_ms);
    let line = member.line;
    let fresh = line.lost_permille <= 100 && (line.late_permille <= 100 || line.late_ms <= 500);
    let seen = spec.traits.resident_seen && !spec.traits.lies;
    lone && fresh && spec.balloon == Fault::None && spec.traits.yields && seen
}

/// Returns true if a guest's programs need as much memory as half a minute ago, and no rival moves
/// the guest.
fn is_quiet(member: &Member, now_ms: u64) -> bool {
    const WHILE_MS: u64 = 30_000;
    let clock_ms = member.guest.clock_ms(now_ms);
    let load = member.guest.spec.load;
    let steady = !matches!(load, Load::Sawtooth { .. });
    let before = clock_ms.checked_sub(WHILE_MS).map(|ms| load.at(ms));
    steady && member.rival.is_none() && before == Some(load.at(clock_ms))
}

/// Returns the memory that a guest can spare, by the model's truth: free memory and cold cache
/// beyond the guest's headroom.
fn spare_kib(member: &Member) -> u64 {
    let guest = &member.guest;
    let loose = guest.free_kib() + guest.held.cold_kib;
    let used = guest.actual_kib() - guest.free_kib() - guest.cache_kib();
    let room = (used / 4).clamp(GIB_KIB / 16, GIB_KIB) + used / 4;
    let touched = guest.resident_kib().min(guest.actual_kib());
    let above_min = touched.saturating_sub(guest.spec.min_kib);
    let spare = touched.saturating_sub(guest.actual_kib() - loose.saturating_sub(room));
    if member.starved_ms.is_some() || guest.balloon.gave_way { 0 } else { spare.min(above_min) }
}

/// Returns true if there is memory for a guest that waits: free memory of the host, or memory that
/// other guests can spare.
fn can_be_met(world: &World, member: &Member) -> bool {
    let free_kib = world.available_kib().saturating_sub(world.config.reserve.0 >> 10);
    let others =
        world.members.iter().filter(|m| m.key != member.key && is_healthy(m, world.now_ms));
    let spare_kib: u64 = others.map(spare_kib).sum();
    // The host's own shortage takes precedence.
    let owed_kib =
        (world.used_kib() + (world.config.reserve.0 >> 10)).saturating_sub(world.total_kib);
    free_kib > GIB_KIB / 2 || spare_kib > 2 * GIB_KIB + owed_kib
}

/// The orders of a run, with their times.
pub type Journal = Vec<(u64, Order)>;

/// Runs a scenario to its end. An error describes the violation and its time.
pub fn run(scenario: Scenario) -> Result<(Tally, Journal), String> {
    watched(scenario, &mut |_, _, _| ())
}

/// Runs a scenario, and calls an observer after each step.
pub fn watched(
    scenario: Scenario,
    look: &mut dyn FnMut(&World, &Ours, Option<&Round>),
) -> Result<(Tally, Journal), String> {
    let mut checker = Checker::new(&scenario);
    let (mut world, mut ours) = (scenario.world, Ours::default());
    let mut journal = Vec::new();
    while world.now_ms < LENGTH_MS {
        let round = world.step(&mut ours);
        look(&world, &ours, round.as_ref());
        journal.extend(round.iter().flat_map(|r| &r.orders).map(|o| (world.now_ms, *o)));
        checker
            .see(&world, &ours, round.as_ref())
            .map_err(|what| format!("at {} ms: {what}", world.now_ms))?;
    }
    Ok((checker.tally, journal))
}
