//! Bursts of work of a virtual CPU and the idle times between them, estimated once a second. The
//! inputs are run time, wait time and dispatches since the last reading.
//!
//! A virtual CPU with n dispatches in a second counts as n bursts of equal length. If it worked for
//! the whole second, its burst continues in the next reading. A trace of every burst would be
//! exact, but would cost the host more than most guests do.

/// Working time, in percent of the time passed, above which a virtual CPU counts as never idle.
const WHOLE_PERCENT: u64 = 95;
/// Upper limits of the length classes of bursts, in nanoseconds.
const ENDS_NS: [u64; 3] = [50_000_000, 200_000_000, 1_000_000_000];
/// Length below which an idle time is a pause within one piece of work, such as a wait for a
/// response.
const REST_NS: u64 = 300_000_000;

/// Bursts and short idle times, summed over virtual CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stretches {
    /// Numbers of bursts by length: below 0.05 s, below 0.2 s, below 1 s, and longer.
    pub(crate) counts: [u64; 4],
    /// Total of the idle times shorter than 0.3 s.
    pub(crate) short_rest_ns: u64,
}

/// Current burst of a virtual CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Open {
    length_ns: u64,
}

impl Stretches {
    fn add(&mut self, count: u64, length_ns: u64) {
        let kind = ENDS_NS.iter().filter(|end| length_ns >= **end).count();
        self.counts[kind] = self.counts[kind].saturating_add(count);
    }

    /// Adds the activity of a virtual CPU since the last reading. `queued_ns` is the sum of its run
    /// time and wait time.
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
        // Work without a dispatch continues a burst that began before the last reading.
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
    fn short_bursts_are_counted_by_their_mean_length() {
        let (mut all, mut open) = (Stretches::default(), Open::default());
        all.take(&mut open, 100 * MS, 10, SECOND);
        assert_eq!((all.counts, all.short_rest_ns), ([10, 0, 0, 0], 900 * MS));
        all.take(&mut open, 200 * MS, 2, SECOND);
        assert_eq!(all.counts, [10, 2, 0, 0]);
        // Idle times of 0.4 s each are not short.
        assert_eq!(all.short_rest_ns, 900 * MS);
        all.take(&mut open, 600 * MS, 1, SECOND);
        assert_eq!(all.counts, [10, 2, 1, 0]);
    }

    #[test]
    fn long_bursts_continue_over_several_readings_and_end_once() {
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
