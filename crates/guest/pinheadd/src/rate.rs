//! Rate limits for repeated events.

/// A limit of `N` events within any one second.
#[derive(Debug)]
pub struct Rate<const N: usize> {
    /// Times of the last events on a monotonic clock. The oldest time is at `next`.
    times_ms: [Option<u64>; N],
    next: usize,
}

impl<const N: usize> Rate<N> {
    pub fn new() -> Rate<N> {
        Rate { times_ms: [None; N], next: 0 }
    }

    /// Returns true, and counts an event, if the limit allows an event now.
    pub fn take(&mut self, now_ms: u64) -> bool {
        let oldest = &mut self.times_ms[self.next];
        if oldest.is_some_and(|then_ms| now_ms < then_ms + 1000) {
            return false;
        }
        *oldest = Some(now_ms);
        self.next = (self.next + 1) % N;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_second_has_more_of_it_wherever_it_begins() {
        let mut rate = Rate::<3>::new();
        let taken: Vec<u64> = (0..500).map(|n| n * 10).filter(|now| rate.take(*now)).collect();
        assert_eq!(taken[..6], [0, 10, 20, 1000, 1010, 1020]);
        for window in taken.windows(4) {
            assert!(window[3] - window[0] >= 1000, "{window:?}");
        }
    }
}
