//! Giving: needs from whatever is free above the reserve, wishes from what the host has too much.

use super::reason::{Action, Bound, Clause};
use super::sample::Mode;
use super::share::{Part, divide};
use super::{MOVE_MIN, Purse, Seat};
use counters::Bytes;

/// Grants what guests need, as far as free memory goes; the rest is what others have to give.
pub(super) fn needs(seats: &mut [Seat<'_>], purse: &mut Purse) {
    fixed(seats, purse);
    let asks: Vec<(usize, Bytes, Clause)> = seats
        .iter()
        .enumerate()
        .filter(|(_, seat)| seat.at.held.is_none() && seat.to.is_none())
        .filter_map(|(index, seat)| {
            // What its own rules ask for beyond what it has is a need like any other.
            let asked = seat.sample.request.map_or(Bytes::ZERO, |request| {
                let wanted = request.min(seat.at.ceiling);
                wanted.less(seat.at.actual.plus(seat.guest.track.going(seat.at.actual)))
            });
            let managed = seat.sample.limits.mode == Mode::Managed;
            let asked = if seat.sample.asks && managed { asked } else { Bytes::ZERO };
            match seat.at.why {
                Some(clause) if seat.at.need >= asked && seat.at.need > Bytes::ZERO => {
                    Some((index, seat.at.need, clause))
                }
                _ if asked > Bytes::ZERO => Some((index, asked, Clause::Request)),
                _ => None,
            }
        })
        .collect();
    let parts: Vec<Part> = asks
        .iter()
        .map(|(index, need, _)| {
            let weight = u64::from(seats[*index].sample.limits.shares);
            Part { cap: *need, weight }
        })
        .collect();
    let given = divide(purse.free, &parts);
    for ((index, need, clause), size) in asks.into_iter().zip(given) {
        let seat = &mut seats[index];
        purse.unmet = purse.unmet.plus(need.less(size));
        if size < need {
            seat.bounds.push(if size > Bytes::ZERO { Bound::Shares } else { Bound::Host });
        }
        // Too little to be worth a move is left for when there is more.
        if size < MOVE_MIN.min(need) {
            continue;
        }
        grant(seat, purse, size, clause);
        if seat.to.is_some_and(|(to, ..)| to >= seat.at.ceiling) {
            seat.bounds.push(Bound::Max);
        }
    }
}

/// What the operator fixed, and guests above their maximum.
fn fixed(seats: &mut [Seat<'_>], purse: &mut Purse) {
    for seat in seats.iter_mut().filter(|seat| seat.at.held.is_none()) {
        let limits = seat.sample.limits;
        let (wanted, clause) = match limits.mode {
            Mode::Pinned(size) => (size.max(seat.at.min).min(limits.max), Clause::Pinned),
            Mode::Released => (limits.max, Clause::Released),
            Mode::Managed if seat.at.actual > limits.max => (limits.max, Clause::Limits),
            // Its own rules are content with less: that much is given freely.
            Mode::Managed if seat.at.actual > seat.at.ceiling.plus(MOVE_MIN) => {
                (seat.at.ceiling, Clause::Request)
            }
            Mode::Managed => continue,
        };
        let actual = seat.at.actual;
        let near = seat.guest.track.target().unwrap_or(actual);
        let off = Bytes(near.0.abs_diff(wanted.0));
        if off < MOVE_MIN {
            if limits.mode != Mode::Managed {
                seat.to = Some((actual, Action::Hold, clause));
            }
        } else if wanted > actual {
            let lack = wanted.less(actual.plus(seat.guest.track.going(actual)));
            let size = lack.min(purse.free);
            if size >= MOVE_MIN {
                grant(seat, purse, size, clause);
            } else {
                seat.to = Some((actual, Action::Hold, clause));
                seat.bounds.push(Bound::Host);
            }
        } else if shrinks(seat, clause) && !seat.guest.track.is_shrinking() {
            // A step at a time, after each of which it is seen whether it can do with that.
            let to = wanted.max(Bytes(actual.0 - actual.0 / 4));
            if to > wanted {
                seat.bounds.push(Bound::Step);
            }
            let coming = seat.at.touched.less(to);
            purse.coming = purse.coming.plus(coming);
            purse.lack = purse.lack.less(coming);
            seat.to = Some((to, Action::Shrink, clause));
        }
    }
}

/// Whether what speaks against a move down leaves this one: nobody is shrunk who waits for memory,
/// and what its own rules are content with has time until it has cooled.
fn shrinks(seat: &Seat<'_>, clause: Clause) -> bool {
    match (clause, seat.at.against) {
        (_, Some(Clause::Strained)) => false,
        (Clause::Request, against) => matches!(against, None | Some(Clause::Moving)),
        _ => true,
    }
}

/// What guests could use, from what the host has too much.
pub(super) fn wishes(seats: &mut [Seat<'_>], purse: &mut Purse) {
    // Half of it: the guests' answer to it is seen before the other half is spent.
    let spendable = Bytes(purse.surplus.0 / 2).min(purse.free);
    let wishing: Vec<usize> = (0..seats.len())
        .filter(|i| {
            let seat = &seats[*i];
            seat.to.is_none()
                && seat.at.held.is_none()
                && seat.at.wishes
                && seat.sample.limits.mode == Mode::Managed
                && seat.at.actual.plus(MOVE_MIN) <= seat.at.ceiling
        })
        .collect();
    let parts: Vec<Part> = wishing
        .iter()
        .map(|i| {
            let at = &seats[*i].at;
            let reach = seats[*i].guest.track.reach();
            let cap = Bytes(at.actual.0 / 8).min(at.ceiling.less(at.actual)).min(reach);
            Part { cap, weight: u64::from(seats[*i].sample.limits.shares) }
        })
        .collect();
    let given = divide(spendable, &parts);
    for (index, size) in wishing.into_iter().zip(given) {
        if size >= MOVE_MIN {
            grant(&mut seats[index], purse, size, Clause::Wish);
        }
    }
}

fn grant(seat: &mut Seat<'_>, purse: &mut Purse, size: Bytes, clause: Clause) {
    // What is already on its way to it stays granted.
    let base = seat.at.actual.plus(seat.guest.track.going(seat.at.actual));
    seat.to = Some((base.plus(size), Action::Grow, clause));
    purse.free = purse.free.less(size);
    purse.surplus = purse.surplus.less(size);
}
