//! How tests that run at the same time share the machine.
//!
//! ```text
//!   libtest's threads ─► share(guests), in the order of asking ─► places for GUESTS guests
//! ```
//!
//! A guest is emulated: while it boots it keeps a core busy, and afterwards most of them wait for
//! something. So several tests run beside one another, each of which says how many guests it has.
//! A slow test that measures has the machine alone: as far as this program goes. Which programs run
//! beside one another says `scripts/test`.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

/// Guests on the machine at a time.
const GUESTS: usize = 12;

struct Places {
    free: usize,
    /// Who waits, first come first served: many small tests would keep a large one out forever.
    queue: VecDeque<u64>,
    next: u64,
}

static PLACES: Mutex<Places> = Mutex::new(Places { free: GUESTS, queue: VecDeque::new(), next: 0 });
static CHANGED: Condvar = Condvar::new();

/// Places that a test has. It gives them back when this goes.
#[derive(Debug)]
pub struct Share(usize);

/// Waits for places for so many guests.
pub fn share(guests: usize) -> Share {
    // More than there are is all of them.
    let wanted = guests.min(GUESTS);
    if wanted == 0 {
        return Share(0);
    }
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let own = places.next;
    places.next += 1;
    places.queue.push_back(own);
    while places.queue.front() != Some(&own) || places.free < wanted {
        places = CHANGED.wait(places).unwrap_or_else(PoisonError::into_inner);
    }
    places.queue.pop_front();
    places.free -= wanted;
    CHANGED.notify_all();
    Share(wanted)
}

/// Waits until no other test has a guest, and keeps them waiting.
pub fn alone() -> Share {
    share(GUESTS)
}

impl Drop for Share {
    fn drop(&mut self) {
        PLACES.lock().unwrap_or_else(PoisonError::into_inner).free += self.0;
        CHANGED.notify_all();
    }
}
