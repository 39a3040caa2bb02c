//! Taking: who gives how much, and what speaks against it.

use super::guest::{Standing, Tier};
use super::reason::{Action, Bound, Clause};
use super::sample::{Config, Key};
use super::share::{Part, divide};
use super::{MOVE_MIN, Purse, Seat};
use counters::Bytes;

/// The least that one pass may take, so that small guests are not asked for crumbs.
const STEP_MIN: Bytes = Bytes::mib(32);

/// How much it matters that somebody gives.
#[derive(Clone, Copy)]
enum Haste {
    None,
    /// The host is half-way to its reserve.
    Low,
    /// Somebody is in need.
    Need,
    /// The host is below its reserve.
    Emergency,
}

impl Haste {
    /// What stands against taking from a guest.
    fn against(self, at: &Standing) -> Option<Clause> {
        match self {
            Haste::None => at.against,
            Haste::Low => at.against_low,
            Haste::Need => at.against_need,
            Haste::Emergency => at.against_emergency,
        }
    }
}

/// Takes what the host, its guests in need and its reservations lack from those that can
/// spare it. Returns who gave nothing, by what clause.
pub(super) fn take(
    seats: &mut [Seat<'_>],
    purse: &mut Purse,
    config: &Config,
) -> Vec<(Key, Clause)> {
    by_rule(seats, purse, config);
    let claim = match (purse.unmet, purse.reserve_lack) {
        (Bytes::ZERO, Bytes::ZERO) if purse.relieves => Clause::HostPressure,
        (Bytes::ZERO, Bytes::ZERO) => Clause::SetPoint,
        (Bytes::ZERO, _) => Clause::Reservation,
        _ => Clause::Shortage,
    };
    let clause = if purse.emergency { Clause::Emergency } else { claim };
    let urgent = !matches!(clause, Clause::SetPoint | Clause::HostPressure);
    // What is on its way already is for those who wait for it.
    let mut demand = purse
        .lack
        .max(purse.unmet.plus(purse.reserve_lack).less(purse.coming))
        .max(if urgent { purse.lack.plus(purse.unmet).less(purse.coming) } else { Bytes::ZERO });
    let tiers: &[Tier] = match clause {
        Clause::Emergency => &[Tier::Cold, Tier::Hot, Tier::Used],
        // What is in use is not dropped for a number that is nearly met.
        Clause::SetPoint | Clause::HostPressure if !purse.low => &[Tier::Cold],
        _ => &[Tier::Cold, Tier::Hot],
    };
    let haste = match (urgent, purse.low) {
        _ if purse.emergency => Haste::Emergency,
        (true, _) => Haste::Need,
        (false, true) => Haste::Low,
        (false, false) => Haste::None,
    };
    if urgent && demand > Bytes::ZERO {
        // Somebody waits for the last crumb too, and each donor's part of it must be worth a move.
        demand = demand.max(Bytes(MOVE_MIN.0 * seats.len().min(64) as u64));
    }
    let mut given = vec![Bytes::ZERO; seats.len()];
    for tier in tiers {
        if demand < MOVE_MIN {
            break;
        }
        // Memory in use is pushed out for the reserve alone, not for the set point.
        let asked = if *tier == Tier::Used { demand.min(purse.deficit) } else { demand };
        demand = demand.less(tier_gives(seats, &mut given, *tier, asked, haste, config));
    }
    let mut refused = Vec::new();
    for (seat, size) in seats.iter_mut().zip(given) {
        if size >= MOVE_MIN {
            shrink(seat, purse, size, clause, config);
        } else if seat.to.is_none_or(|(_, action, _)| action != Action::Shrink) {
            let against = haste.against(&seat.at);
            refused.push((seat.sample.key, against.unwrap_or(Clause::Nothing)));
        }
    }
    refused
}

/// One tier's contributions, added to what the tiers before it gave. Returns their sum.
fn tier_gives(
    seats: &[Seat<'_>],
    given: &mut [Bytes],
    tier: Tier,
    demand: Bytes,
    haste: Haste,
    config: &Config,
) -> Bytes {
    let donors: Vec<usize> = (0..seats.len())
        .filter(|i| {
            let seat = &seats[*i];
            let against = haste.against(&seat.at);
            seat.to.is_none() && seat.at.held.is_none() && against.is_none()
        })
        .collect();
    let parts: Vec<Part> = donors
        .iter()
        .map(|i| {
            let seat = &seats[*i];
            let spare = seat.guest.spare(&seat.at, tier).min(step(seat, config));
            Part { cap: spare.less(given[*i]), weight: weight(seat, config) }
        })
        .collect();
    let shares = divide(demand, &parts);
    for (index, size) in donors.into_iter().zip(&shares) {
        given[index] = given[index].plus(*size);
    }
    shares.into_iter().sum()
}

/// Who gives first: idle memory is dearer to hold than memory in use, and shares make
/// either cheaper. Who cannot be seen to give gives last: whatever it says that it has given,
/// others would have to have given.
fn weight(seat: &Seat<'_>, config: &Config) -> u64 {
    if seat.sample.resident.is_none() {
        return 1;
    }
    let touched = seat.at.touched.as_mib().max(1);
    let idle = seat.guest.spare(&seat.at, Tier::Cold).as_mib().min(touched);
    let idle_permille = idle * 1000 / touched;
    let price = 1_000_000 / (1000 - config.idle_tax_permille.min(990));
    let taxed = (1000 - idle_permille) * 1000 + idle_permille * price;
    touched.saturating_mul(taxed) / u64::from(seat.sample.limits.shares.max(1))
}

fn step(seat: &Seat<'_>, config: &Config) -> Bytes {
    let plain = seat.at.actual.permille(config.step_permille).max(STEP_MIN);
    seat.words.shrink_size.unwrap_or(plain).min(Bytes(seat.at.actual.0 / 4).max(STEP_MIN))
}

/// Guests that the operator's rules shrink, whatever the host has.
fn by_rule(seats: &mut [Seat<'_>], purse: &mut Purse, config: &Config) {
    for seat in seats.iter_mut() {
        let free = seat.to.is_none() && seat.at.held.is_none() && seat.at.against_need.is_none();
        if seat.words.shrink == Some(true) && free {
            let most = seat.at.touched.less(seat.at.min);
            let size = step(seat, config).min(most);
            if size >= MOVE_MIN {
                shrink(seat, purse, size, Clause::Rule, config);
            }
        }
    }
}

fn shrink(seat: &mut Seat<'_>, purse: &mut Purse, size: Bytes, clause: Clause, config: &Config) {
    // What it never touched is cut off with it, since the host gains nothing from that part;
    // not all at once, because a guest has to find those pages.
    let actual = seat.at.actual;
    let to = seat.at.touched.less(size).max(Bytes(actual.0 - actual.0 / 4)).max(seat.at.min);
    if to >= actual {
        return;
    }
    if size >= step(seat, config) {
        seat.bounds.push(Bound::Step);
    }
    if to == seat.at.min {
        seat.bounds.push(Bound::Min);
    }
    let coming = seat.at.touched.less(to);
    purse.coming = purse.coming.plus(coming);
    purse.lack = purse.lack.less(coming);
    seat.to = Some((to, Action::Shrink, clause));
}
