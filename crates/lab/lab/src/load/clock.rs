//! The only clock of the loads: microseconds since a start.

use std::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

#[allow(clippy::disallowed_methods, reason = "this is a clock module")]
impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    pub(crate) fn us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}
