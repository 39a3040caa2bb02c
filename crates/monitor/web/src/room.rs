//! Limited number of places for connections, shared fairly between their origins.
//!
//! A connection counts as a stranger until one of its requests has a session. If no place is free,
//! a stranger of the origin with the most strangers is disconnected. A visitor with a session is
//! never disconnected.

use crate::access::Origin;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Time that a stranger keeps a place, for TLS and a request. A slow line needs half a second.
const STAY_MS: u64 = 2_000;

/// Reservation of a connection's place. Dropping the reservation frees the place.
#[derive(Debug)]
pub(crate) struct Seat {
    room: Arc<Room>,
    place: Place,
}

#[derive(Clone, Debug)]
pub(crate) struct Place {
    origin: Origin,
    since_ms: u64,
    is_known: Arc<AtomicBool>,
    leave: Arc<Notify>,
}

#[derive(Debug)]
pub(crate) struct Room {
    most: usize,
    /// Maximum number of strangers of one origin.
    strangers: usize,
    /// Occupied places, oldest first.
    taken: Mutex<VecDeque<Place>>,
}

impl Room {
    pub(crate) fn new(most: usize, strangers: usize) -> Arc<Room> {
        Arc::new(Room { most, strangers, taken: Mutex::default() })
    }

    fn taken(&self) -> MutexGuard<'_, VecDeque<Place>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Occupies a place. Returns `None` if no place is free and no other connection can be
    /// displaced.
    pub(crate) fn enter(self: &Arc<Room>, origin: Origin, now_ms: u64) -> Option<Seat> {
        let mut taken = self.taken();
        let own = taken.iter().filter(|one| one.is_stranger_of(origin)).count();
        let fullest = match own >= self.strangers {
            true => Some((origin, own)),
            false if taken.len() >= self.most => Some(fullest(&taken)?),
            false => None,
        };
        if let Some((from, most)) = fullest {
            let oldest = taken.iter().position(|one| one.is_stranger_of(from))?;
            // An origin that has at least two strangers more than the newcomer's origin loses a
            // stranger at once.
            let has_stayed = now_ms.saturating_sub(taken.get(oldest)?.since_ms) >= STAY_MS;
            if !has_stayed && most <= own + 1 {
                return None;
            }
            taken.remove(oldest)?.leave.notify_one();
        }
        let place =
            Place { origin, since_ms: now_ms, is_known: Arc::default(), leave: Arc::default() };
        taken.push_back(place.clone());
        drop(taken);
        Some(Seat { room: self.clone(), place })
    }
}

/// Returns the origin with the most strangers, and their number. If there are several such origins,
/// returns the origin with the oldest stranger.
fn fullest(taken: &VecDeque<Place>) -> Option<(Origin, usize)> {
    let mut counts = BTreeMap::<Origin, usize>::new();
    for one in taken.iter().filter(|one| one.is_stranger()) {
        *counts.entry(one.origin).or_default() += 1;
    }
    let most = *counts.values().max()?;
    let mut strangers = taken.iter().filter(|one| one.is_stranger());
    strangers.find(|one| counts.get(&one.origin) == Some(&most)).map(|one| (one.origin, most))
}

impl Seat {
    /// Returns the handle that is attached to the requests of this connection.
    pub(crate) fn place(&self) -> Place {
        self.place.clone()
    }

    /// Waits until the place is given to another connection.
    pub(crate) async fn is_needed(&self) {
        self.place.leave.notified().await;
    }
}

impl Place {
    /// Marks the connection as a connection of a visitor with a session.
    pub(crate) fn is_known(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    fn is_stranger(&self) -> bool {
        !self.is_known.load(Ordering::Relaxed)
    }

    fn is_stranger_of(&self, origin: Origin) -> bool {
        self.origin == origin && self.is_stranger()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.room.taken().retain(|one| !Arc::ptr_eq(&one.leave, &self.place.leave));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one of many origins, by its number.
    fn at(number: u8) -> Origin {
        Origin::V4([192, 0, 2, number].into())
    }

    fn is_there(seat: &Seat) -> bool {
        seat.room.taken().iter().any(|one| Arc::ptr_eq(&one.leave, &seat.place.leave))
    }

    #[test]
    fn only_strangers_are_displaced_by_newcomers() {
        let room = Room::new(2, 2);
        let first = room.enter(at(1), 0).unwrap();
        let second = room.enter(at(1), 0).unwrap();
        first.place().is_known();
        let third = room.enter(at(1), STAY_MS).unwrap();
        assert!(is_there(&first) && !is_there(&second) && is_there(&third));
        third.place().is_known();
        assert!(room.enter(at(1), u64::MAX).is_none());
        drop(first);
        assert!(room.enter(at(1), u64::MAX).is_some());
        drop(second);
        assert_eq!(room.taken().len(), 1);
    }

    #[test]
    fn finding2_02_flood_displaces_no_stranger_of_another_origin() {
        let room = Room::new(512, 32);
        // Thousands of connections per second arrive for three seconds, all from one origin.
        let flood = |second: u64, held: &mut Vec<Seat>| {
            let came = (0..4_000).filter_map(|n| room.enter(at(1), second * 1_000 + n / 4));
            held.extend(came);
            held.retain(is_there);
        };
        let mut held = Vec::new();
        flood(0, &mut held);
        assert_eq!(held.len(), 32, "one origin has no more strangers");
        let visitor = room.enter(at(2), 1_000).unwrap();
        flood(1, &mut held);
        flood(2, &mut held);
        assert!(is_there(&visitor) && held.len() == 32);
        // Strangers of many origins share all places.
        held.extend((3..=30).flat_map(|one| {
            let room = &room;
            (0..32).filter_map(move |_| room.enter(at(one), 3_000))
        }));
        assert!(is_there(&visitor) && room.taken().len() == 512);
    }

    #[test]
    fn finding2_02_newcomer_displaces_the_oldest_of_the_fullest() {
        let room = Room::new(6, 4);
        let enter = |origin, now_ms| room.enter(at(origin), now_ms);
        let two: Vec<Seat> = (0..2).map(|_| enter(1, 0).unwrap()).collect();
        let four: Vec<Seat> = (0..4).map(|_| enter(2, 0).unwrap()).collect();
        assert!(enter(2, 0).is_none(), "the origin has its maximum");
        let _third = enter(3, 0).unwrap();
        let there = |seats: &[Seat]| seats.iter().map(is_there).collect::<Vec<_>>();
        assert_eq!(there(&four), [false, true, true, true]);
        assert_eq!(there(&two), [true, true]);
        let _again = enter(3, 0).unwrap();
        assert_eq!(there(&four), [false, false, true, true]);
        assert_eq!(there(&two), [true, true]);
    }

    #[test]
    fn finding2_02_no_stranger_is_displaced_before_its_time() {
        let room = Room::new(4, 2);
        let enter = |origin, now_ms| room.enter(at(origin), now_ms);
        let first: Vec<Seat> = (0..2).map(|_| enter(1, 1_000).unwrap()).collect();
        assert!(
            enter(1, 1_000 + STAY_MS - 1).is_none(),
            "a stranger of its own origin is not displaced"
        );
        let _next = enter(1, 1_000 + STAY_MS).unwrap();
        assert!(!is_there(&first[0]) && is_there(&first[1]));
        // Each origin has one place. A newcomer must wait until the oldest stranger's time is over.
        let room = Room::new(2, 2);
        let ones = [1, 2].map(|one| room.enter(at(one), 5_000).unwrap());
        assert!(room.enter(at(3), 5_000 + STAY_MS - 1).is_none());
        let _third = room.enter(at(3), 5_000 + STAY_MS).unwrap();
        assert!(!is_there(&ones[0]) && is_there(&ones[1]));
    }
}
