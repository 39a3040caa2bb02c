//! Sharing of the machine between tests that run at the same time.
//!
//! ```text
//!   libtest's threads ─► share(guests), in the order of asking ─► places for GUESTS guests
//! ```
//!
//! An emulated guest keeps a core busy while it boots, and mostly waits afterwards. Several tests
//! can therefore run at the same time, and each test declares its number of guests. A slow test
//! that measures runs while no other test of this program has a guest. `scripts/test` decides which
//! programs run at the same time.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

/// Maximum number of guests on the machine at a time.
const GUESTS: usize = 12;

struct Places {
    free: usize,
    /// Waiting tests, in the order of their requests. Without this order, many small tests would
    /// keep a large test waiting forever.
    queue: VecDeque<u64>,
    next: u64,
}

static PLACES: Mutex<Places> = Mutex::new(Places { free: GUESTS, queue: VecDeque::new(), next: 0 });
static CHANGED: Condvar = Condvar::new();

/// Places that a test occupies for its guests. Dropping this value releases them.
#[derive(Debug)]
pub struct Share(usize);

/// Waits for places for this many guests.
pub fn share(guests: usize) -> Share {
    // A test that requests more places than exist gets all places.
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

/// Waits until no other test has a guest, and makes other tests wait.
pub fn alone() -> Share {
    share(GUESTS)
}

impl Drop for Share {
    fn drop(&mut self) {
        PLACES.lock().unwrap_or_else(PoisonError::into_inner).free += self.0;
        CHANGED.notify_all();
    }
}
