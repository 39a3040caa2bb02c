//! State of a guest, and its counters over its life.

use wire::Status;

/// State of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The guest waits for its turn to boot.
    Waiting,
    /// The guest boots.
    Booting,
    /// The guest's daemon has sent its hello.
    Up,
    /// The guest is up, but has no daemon, or its daemon has signed off.
    Unmanaged,
    /// The guest is up, and a host manager has its port and balloon.
    Managed,
    /// The guest's QEMU has ended. The text is the reason.
    Ended(String),
}

impl State {
    /// Returns true if the guest runs and has booted.
    pub fn is_up(&self) -> bool {
        matches!(self, State::Up | State::Unmanaged | State::Managed)
    }

    /// Returns one word for the state.
    pub fn word(&self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Booting => "booting",
            State::Up => "up",
            State::Unmanaged => "unmanaged",
            State::Managed => "managed",
            State::Ended(_) => "ended",
        }
    }
}

/// Counters of a guest over its life, as reported by its daemon and checked for plausibility.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Minimum and maximum number of CPUs that were online.
    pub cpus_online: Option<(u32, u32)>,
    /// CPUs plugged.
    pub plugs: u32,
    /// CPUs unplugged.
    pub unplugs: u32,
    /// The largest pool, in pages.
    pub pool_pages_max: u64,
    /// Number of times that the pool grew.
    pub grows: u32,
    /// Number of times that the pool shrank.
    pub shrinks: u32,
}

#[derive(Debug, Default)]
pub(super) struct Counting {
    pub(super) tally: Tally,
    last: Option<Status>,
    /// True if the last status is out of date, because later statuses went to another manager.
    is_old: bool,
}

impl Counting {
    pub(super) fn add(&mut self, status: &Status) {
        self.tally.add(status, self.last.as_ref());
        (self.last, self.is_old) = (Some(status.clone()), false);
    }

    /// Records that later statuses go to another manager.
    pub(super) fn forget_state(&mut self) {
        self.is_old = true;
    }

    /// Returns the last status, unless it is out of date.
    pub(super) fn last(&self) -> Option<&Status> {
        self.last.as_ref().filter(|_| !self.is_old)
    }
}

impl Tally {
    fn add(&mut self, status: &Status, before: Option<&Status>) {
        let online = status.cpus_online;
        self.cpus_online = Some(match self.cpus_online {
            None => (online, online),
            Some((min, max)) => (min.min(online), max.max(online)),
        });
        self.pool_pages_max = self.pool_pages_max.max(status.pool_pages);
        // A restarted daemon counts from zero again, and its sequence restarts as well.
        let before = before.filter(|before| status.sequence > before.sequence);
        let grown = |sum: &mut u32, now: u32, then: fn(&Status) -> u32| {
            *sum = sum.saturating_add(now.saturating_sub(before.map_or(0, then)));
        };
        grown(&mut self.plugs, status.plugs, |before| before.plugs);
        grown(&mut self.unplugs, status.unplugs, |before| before.unplugs);
        grown(&mut self.grows, status.grows, |before| before.grows);
        grown(&mut self.shrinks, status.shrinks, |before| before.shrinks);
    }
}

/// Process that controls a guest's port and balloon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    Farm,
    /// A host manager. A parked guest's port is handed over once the guest is woken.
    Manager,
    /// The farm, once the parked guest is woken. The manager ended while the guest was parked.
    FarmWhenWoken,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_starts_again_counts_on() {
        let status = |sequence, plugs, cpus_online| Status {
            sequence,
            plugs,
            cpus_online,
            ..Status::default()
        };
        let all = [status(0, 1, 2), status(1, 3, 4), status(0, 2, 1), status(1, 2, 1)];
        let (mut tally, mut before) = (Tally::default(), None);
        for status in &all {
            tally.add(status, before.replace(status));
        }
        assert_eq!((tally.plugs, tally.cpus_online), (5, Some((1, 4))));
    }
}
