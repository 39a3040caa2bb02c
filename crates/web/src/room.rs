//! Places for connections. Where all are taken, the connection that has been there for longest
//! without a session makes room: strangers push each other out, and nobody who was let in.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// A connection's place. It is free again with this value.
#[derive(Debug)]
pub(crate) struct Seat {
    room: Arc<Room>,
    place: Place,
}

/// What is known of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    is_known: Arc<AtomicBool>,
    leave: Arc<Notify>,
}

/// All places.
#[derive(Debug)]
pub(crate) struct Room {
    most: usize,
    /// In the order in which they came.
    taken: Mutex<VecDeque<Place>>,
}

impl Room {
    pub(crate) fn new(most: usize) -> Arc<Room> {
        Arc::new(Room { most, taken: Mutex::default() })
    }

    fn taken(&self) -> MutexGuard<'_, VecDeque<Place>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place; `None` where everybody was let in.
    pub(crate) fn enter(self: &Arc<Room>) -> Option<Seat> {
        let mut taken = self.taken();
        if taken.len() >= self.most {
            let oldest = taken.iter().position(|one| !one.is_known.load(Ordering::Relaxed))?;
            if let Some(place) = taken.remove(oldest) {
                place.leave.notify_one();
            }
        }
        let place = Place { is_known: Arc::default(), leave: Arc::default() };
        taken.push_back(place.clone());
        drop(taken);
        Some(Seat { room: self.clone(), place })
    }
}

impl Seat {
    /// What requests of this connection carry along.
    pub(crate) fn place(&self) -> Place {
        self.place.clone()
    }

    /// Waits until somebody else needs the place.
    pub(crate) async fn is_needed(&self) {
        self.place.leave.notified().await;
    }
}

impl Place {
    /// Who is there was let in.
    pub(crate) fn is_known(&self) {
        self.is_known.store(true, Ordering::Relaxed);
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

    #[test]
    fn strangers_make_room_and_nobody_who_was_let_in() {
        let room = Room::new(2);
        let first = room.enter().unwrap();
        let second = room.enter().unwrap();
        first.place().is_known();
        let third = room.enter().unwrap();
        let is_there =
            |seat: &Seat| room.taken().iter().any(|one| Arc::ptr_eq(&one.leave, &seat.place.leave));
        assert!(is_there(&first) && !is_there(&second) && is_there(&third));
        third.place().is_known();
        assert!(room.enter().is_none());
        drop(first);
        assert!(room.enter().is_some());
        drop(second);
        assert_eq!(room.taken().len(), 1);
    }
}
