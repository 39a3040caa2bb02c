//! Stretches of work of a virtual CPU and its rests between them, estimated from a look each
//! second: how long it ran and waited, and how often it was dispatched since the last look.
//!
//! What was dispatched n times in a second is taken for n stretches of the same length. A
//! virtual CPU that worked the whole second goes on with the stretch that it is in, so long ones
//! are found over several looks. Tracing each one would be exact, and would cost the host more
//! than most guests do.

/// A virtual CPU that worked for more of the time than this many hundredths did not rest.
const WHOLE_PERCENT: u64 = 95;
/// Where the kinds of stretches end, in nanoseconds.
const ENDS_NS: [u64; 3] = [50_000_000, 200_000_000, 1_000_000_000];
/// Shorter rests are pauses within one piece of work, such as the wait for an answer.
const REST_NS: u64 = 300_000_000;

/// What was counted of virtual CPUs so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stretches {
    /// Stretches of work: below 0.05 s, 0.2 s and 1 s, and longer ones.
    pub(crate) counts: [u64; 4],
    /// Time in rests shorter than 0.3 s.
    pub(crate) short_rest_ns: u64,
}

/// The stretch that a virtual CPU is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Open {
    length_ns: u64,
}

impl Stretches {
    fn add(&mut self, count: u64, length_ns: u64) {
        let kind = ENDS_NS.iter().filter(|end| length_ns >= **end).count();
        self.counts[kind] = self.counts[kind].saturating_add(count);
    }

    /// Takes what a virtual CPU did in the time that has passed: how long it ran or waited for
    /// a CPU, and how often it was dispatched.
    pub(crate) fn take(
        &mut self,
        open: &mut Open,
        queued_ns: u64,
        dispatches: u64,
        passed_ns: u64,
    ) {
        if passed_ns == 0 {
            return;
        }
        let queued_ns = queued_ns.min(passed_ns);
        if queued_ns >= passed_ns / 100 * WHOLE_PERCENT {
            open.length_ns = open.length_ns.saturating_add(queued_ns);
            return;
        }
        let earlier_ns = std::mem::take(&mut open.length_ns);
        // Work without a dispatch is the end of a stretch that had begun before.
        let count = dispatches.max(u64::from(queued_ns > 0));
        let each_ns = queued_ns.checked_div(count).unwrap_or(0);
        if earlier_ns > 0 {
            self.add(1, earlier_ns.saturating_add(each_ns));
        }
        self.add(count.saturating_sub(u64::from(earlier_ns > 0)), each_ns);
        let rest_ns = passed_ns - queued_ns;
        if rest_ns.checked_div(dispatches).is_some_and(|each| each < REST_NS) {
            self.short_rest_ns = self.short_rest_ns.saturating_add(rest_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    #[test]
    fn short_ones_are_counted_by_their_mean() {
        let (mut all, mut open) = (Stretches::default(), Open::default());
        all.take(&mut open, 100 * MS, 10, SECOND);
        assert_eq!((all.counts, all.short_rest_ns), ([10, 0, 0, 0], 900 * MS));
        all.take(&mut open, 200 * MS, 2, SECOND);
        assert_eq!(all.counts, [10, 2, 0, 0]);
        // A rest of 0.4 s each is a rest.
        assert_eq!(all.short_rest_ns, 900 * MS);
        all.take(&mut open, 600 * MS, 1, SECOND);
        assert_eq!(all.counts, [10, 2, 1, 0]);
    }

    #[test]
    fn long_ones_go_on_over_several_looks_and_end_once() {
        let (mut all, mut open) = (Stretches::default(), Open::default());
        for _ in 0..3 {
            all.take(&mut open, 990 * MS, 40, SECOND);
        }
        assert_eq!(all, Stretches::default());
        all.take(&mut open, 100 * MS, 1, SECOND);
        assert_eq!(all.counts, [0, 0, 0, 1]);
        all.take(&mut open, 2 * SECOND, 3, SECOND);
        all.take(&mut open, 0, 0, SECOND);
        assert_eq!((all.counts, all.short_rest_ns), ([0, 0, 0, 2], 0));
        all.take(&mut open, 0, 0, SECOND);
        all.take(&mut open, 5, 5, 0);
        assert_eq!(all.counts, [0, 0, 0, 2]);
        all.take(&mut open, 10 * MS, 0, SECOND);
        assert_eq!(all.counts, [1, 0, 0, 2]);
    }
}
