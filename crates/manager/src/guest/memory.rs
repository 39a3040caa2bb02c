//! The state of a guest's memory: what was reported, what the arbiter takes of it, and what of it
//! is in the host's memory.

use super::arbiter_view::{memory_of, memory_of_stats};
use super::counted::Counted;
use crate::outside::InHost;
use counters::Bytes;
use hypervisor::{BalloonStats, Usage};
use policy::arbiter::Memory;

/// What of a guest that sleeps is in the host's memory is read this often.
const RESIDENT_MS: u64 = 5_000;

/// A guest that was left on its way by a manager that has ended comes to rest within this.
const SETTLE_MS: u64 = 15_000;

/// Pages of a balloon that its hypervisor has not let go of yet, at most.
const SLACK: Bytes = Bytes::mib(8);

/// A report of a guest's memory.
#[derive(Clone, Debug)]
pub enum MemorySample {
    /// Its daemon.
    Daemon(Box<wire::Memory>),
    /// The statistics of its balloon.
    Balloon(Box<BalloonStats>),
}

/// A guest's memory.
#[derive(Debug, Default)]
pub struct GuestMemory {
    /// The memory that it has.
    pub actual: Bytes,
    /// The same as its hypervisor told it, which may be more than it was known to be able to have.
    pub told: Bytes,
    /// The last size that its balloon was asked for, by this manager.
    pub target: Option<Bytes>,
    /// What the arbiter takes of the last sample, as old as the question.
    pub view: Option<Memory>,
    /// The last sample as it was sent: this is what is recorded.
    pub last_sample: Option<MemorySample>,
    /// What z/VM counts of it, if it is a user of that.
    pub counted: Option<Counted>,
    /// Since when a question is open.
    pub question_ms: Option<u64>,
    /// When its balloon was asked for statistics.
    pub stats_asked_ms: Option<u64>,
    /// What it has in the host's memory.
    pub held: Option<InHost>,
    /// Page-out takes from it: what leaves it has not come back by page reporting.
    pub is_taken: bool,
    /// Free memory that came back without the balloon, by page reporting.
    pub reported: Bytes,
    /// The most that the host saw of it when it was asked for less.
    had: Bytes,
    samples: u32,
    resident_ms: Option<u64>,
    restore: Restore,
}

/// The size that a guest is to have when nobody manages it any more.
#[derive(Clone, Copy, Debug, Default)]
struct Restore {
    size: Bytes,
    /// Until then its balloon may be on its way to what an earlier manager had asked it for.
    settles_ms: u64,
}

impl GuestMemory {
    /// Of a guest that has so much.
    pub fn new(actual: Bytes) -> GuestMemory {
        let restore = Restore { size: actual, settles_ms: 0 };
        GuestMemory { actual, told: actual, restore, ..GuestMemory::default() }
    }

    /// The size that it is to have when its manager ends: as it was found, or as others have set
    /// it since.
    pub fn restore(&self) -> Bytes {
        self.restore.size
    }

    /// It has less than it had, by the doing of an earlier manager or of its `pinhead up`.
    pub fn had(&mut self, size: Bytes, now_ms: u64) {
        self.restore = Restore { size, settles_ms: now_ms + SETTLE_MS };
    }

    /// Others have set its balloon to a size, or its kernel has taken memory back.
    pub fn left_at(&mut self, size: Bytes, is_own: bool, now_ms: u64) {
        if is_own || now_ms < self.restore.settles_ms {
            self.restore.size = self.restore.size.max(size);
            return;
        }
        (self.restore.size, self.target) = (size, None);
    }

    /// Returns whether a size is on the way down to what this manager has asked for.
    pub fn is_on_its_way(&self, size: Bytes) -> bool {
        self.target.is_some_and(|target| target <= size.plus(SLACK))
    }

    /// Memory was plugged into it, or unplugged: it is to have that as well, or no more.
    pub fn replugged(&mut self, before: Bytes, now: Bytes) {
        self.actual = self.told.min(now);
        self.restore.size = self.restore.size.plus(now.less(before)).less(before.less(now));
    }

    /// What it has now, or will have if its balloon is on its way down.
    pub fn least(&self) -> Bytes {
        self.target.unwrap_or(self.actual).min(self.actual)
    }

    /// Its balloon is asked for this size.
    pub fn ask(&mut self, size: Bytes) {
        self.had = self.had_before(size);
        self.target = Some(size);
    }

    /// The most of it that the host saw when it was asked for less, up to a target that it is to be
    /// given now. What a guest says that it had is no measure of what was taken from it.
    pub fn had_before(&self, size: Bytes) -> Bytes {
        match size < self.actual {
            // What it has from a template it has as well, and would have to get back.
            true => {
                self.had.max(self.held.map_or(self.actual, |held| held.resident()).min(self.actual))
            }
            false => self.had,
        }
    }

    /// What of it is in the host's memory, and nobody else's.
    pub fn resident(&self) -> Option<Bytes> {
        self.held.map(|held| held.of_guest())
    }

    /// Whether more of the host's memory counts as the guest's than its balloon leaves it: what is
    /// its hypervisor's own was measured wrong, or has grown since.
    pub fn holds_more_than_it_has(&self) -> bool {
        self.resident().is_some_and(|holds| holds > self.actual.plus(SLACK))
    }

    /// What the host has got of it by the balloon.
    pub fn gained_by_balloon(&self) -> Option<Bytes> {
        let is_asked = self.target.is_some_and(|target| target < self.had);
        is_asked.then(|| self.had.less(self.resident().unwrap_or(self.had).max(self.actual)))
    }

    /// The view once there are two samples: rates need two, so the first one puts no guest to
    /// sleep.
    pub fn settled_view(&self) -> Option<Memory> {
        self.view.filter(|_| self.samples >= 2)
    }

    /// Takes its daemon's sample, and when that was true at least. True if it is news.
    pub fn daemon_sample(
        &mut self,
        sample: &wire::Memory,
        true_ms: Option<u64>,
        most: Bytes,
    ) -> bool {
        self.last_sample = Some(MemorySample::Daemon(Box::new(*sample)));
        let Some(at_ms) = true_ms else { return false };
        self.sampled(memory_of(sample, self.actual, most, at_ms));
        true
    }

    /// Takes its balloon's statistics, as old as the question.
    pub fn balloon_sample(&mut self, stats: &BalloonStats, now_ms: u64) {
        let at_ms = self.stats_asked_ms.unwrap_or(now_ms);
        self.last_sample = Some(MemorySample::Balloon(Box::new(*stats)));
        self.sampled(memory_of_stats(stats, self.actual, at_ms));
    }

    /// Takes what z/VM counts of it: that is all that is known. Gives what its virtual CPUs used.
    pub(super) fn count(&mut self, user: &zmon::hypfs::Guest, now_ms: u64) -> Option<Usage> {
        let counted = self.counted.get_or_insert_default();
        let view = counted.take(user, self.actual, now_ms);
        let usage = counted.usage();
        self.held = Some(counted.held());
        self.sampled(view);
        usage
    }

    fn sampled(&mut self, memory: Memory) {
        self.view = Some(memory);
        self.samples = self.samples.saturating_add(1);
        self.question_ms = None;
    }

    /// Whether what is in the host's memory was not read for long.
    pub fn is_resident_old(&self, now_ms: u64) -> bool {
        self.resident_ms.is_none_or(|at| now_ms >= at + RESIDENT_MS)
    }

    /// So much of it is in the host's memory now. What has left since the last time has come back
    /// by page reporting, if the guest reports and neither its balloon nor page-out takes it.
    pub fn read_held(&mut self, now: Option<InHost>, reports: bool, now_ms: u64) {
        self.resident_ms = Some(now_ms);
        let Some(now) = now else { return };
        let takes = self.is_taken || self.target.is_some_and(|target| target < self.actual);
        if let Some(before) = self.held.filter(|_| reports && !takes) {
            self.reported = self.reported.plus(before.private.less(now.private));
        }
        self.held = Some(now);
    }

    /// Earlier reports do not hold after a reboot.
    pub fn rebooted(&mut self) {
        (self.view, self.last_sample, self.samples) = (None, None, 0);
        self.had = Bytes::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::Own;

    #[test]
    fn what_a_guest_cannot_hold_is_seen() {
        let mut memory = GuestMemory::new(Bytes::mib(116));
        assert!(!memory.holds_more_than_it_has(), "nothing is known");
        let own = Own { size: Bytes::mib(11), is_measured: true };
        memory.held = Some(InHost { private: Bytes::mib(172), own, ..InHost::default() });
        assert!(memory.holds_more_than_it_has());
        let own = Own { size: Bytes::mib(78), is_measured: true };
        memory.held = Some(InHost { private: Bytes::mib(200), own, ..InHost::default() });
        assert!(!memory.holds_more_than_it_has(), "some pages are still on their way");
    }

    #[test]
    fn report_h10_balloon_of_an_earlier_manager_settles_first() {
        let mut memory = GuestMemory::new(Bytes::mib(100));
        memory.had(Bytes::mib(256), 0);
        memory.left_at(Bytes::mib(80), false, SETTLE_MS - 1);
        assert_eq!(memory.restore(), Bytes::mib(256));
        memory.left_at(Bytes::mib(120), false, SETTLE_MS);
        assert_eq!(memory.restore(), Bytes::mib(120));
        memory.left_at(Bytes::mib(110), true, SETTLE_MS);
        assert_eq!(memory.restore(), Bytes::mib(120), "its kernel took a part back");
    }
}
