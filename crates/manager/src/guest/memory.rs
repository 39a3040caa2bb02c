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

/// Questions to which a balloon has given no number since its guest started, before it is said to
/// report none. They are asked once a second.
const MUTE_QUESTIONS: u32 = 10;

/// A balloon that is asked and tells nothing, and what helps.
pub(crate) const MUTE: &str = "its balloon reports no numbers: its driver or its service is not \
    there; load virtio_balloon in it, or start BLNSVR in Windows";

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
    before: Before,
    answers: Answers,
    resident_ms: Option<u64>,
    restore: Restore,
}

/// A guest's memory when it was asked for less.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    /// The most that the host saw of it.
    had: Bytes,
    /// The most that its process had for itself.
    held: Option<Bytes>,
}

/// The answers to questions for a guest's memory, counted.
#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    samples: u32,
    /// Questions for statistics since its daemon told a number last.
    missing: u32,
    /// Its balloon has given a number since the guest started: its driver is there.
    by_balloon: bool,
}

/// The size that a guest is to have when nobody manages it any more.
#[derive(Clone, Copy, Debug, Default)]
struct Restore {
    size: Bytes,
    /// Until then its balloon may be on its way to what an earlier manager had asked it for.
    settles_ms: u64,
    /// It was known when the guest was found, of a manager here.
    is_certain: bool,
    /// The target that it left for more: its driver goes back to that if it was only away.
    risen_from: Option<Bytes>,
}

impl GuestMemory {
    /// Of a guest that has so much.
    pub fn new(actual: Bytes) -> GuestMemory {
        let restore = Restore { size: actual, ..Restore::default() };
        GuestMemory { actual, told: actual, restore, ..GuestMemory::default() }
    }

    /// The size that it is to have when its manager ends: as it was found, or as others have set
    /// it since.
    pub fn restore(&self) -> Bytes {
        self.restore.size
    }

    /// It has less than it had, by the doing of an earlier manager or of its `pinhead up`.
    pub fn had(&mut self, size: Bytes, now_ms: u64) {
        let settles_ms = now_ms + SETTLE_MS;
        self.restore = Restore { size, settles_ms, ..Restore::default() };
    }

    /// What it is to have is known of a manager here, and nobody's word counts beside that.
    pub fn settle_restore(&mut self) {
        self.restore.is_certain = true;
    }

    /// Its configuration has this much for it. Returns whether that counts.
    pub fn is_configured(&mut self, size: Bytes, now_ms: u64) -> bool {
        if !self.restore.is_certain {
            self.had(size.max(self.actual), now_ms);
        }
        !self.restore.is_certain
    }

    /// Others have set its balloon to a size, or its kernel has taken memory back.
    pub fn left_at(&mut self, size: Bytes, rose: bool, is_own: bool, now_ms: u64) {
        if is_own || now_ms < self.restore.settles_ms {
            self.restore.size = self.restore.size.max(size);
            return;
        }
        self.restore.risen_from = self.target.or(self.restore.risen_from).filter(|_| rose);
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

    /// What it has now, or will have if its balloon is on its way down, or goes back to it.
    pub fn least(&self) -> Bytes {
        self.target.or(self.restore.risen_from).unwrap_or(self.actual).min(self.actual)
    }

    /// Its balloon is asked for this size.
    pub fn ask(&mut self, size: Bytes) {
        self.before.had = self.had_before(size);
        if size < self.actual {
            self.before.held = self.before.held.max(self.held.map(|held| held.private));
        }
        (self.target, self.restore.risen_from) = (Some(size), None);
    }

    /// The most of it that the host saw when it was asked for less, up to a target that it is to be
    /// given now. What a guest says that it had is no measure of what was taken from it.
    pub fn had_before(&self, size: Bytes) -> Bytes {
        match size < self.actual {
            // What it has from a template it has as well, and would have to get back.
            true => self
                .before
                .had
                .max(self.held.map_or(self.actual, |held| held.resident()).min(self.actual)),
            false => self.before.had,
        }
    }

    /// What of it is in the host's memory, and nobody else's.
    pub fn resident(&self) -> Option<Bytes> {
        self.held.map(|held| held.of_guest())
    }

    /// The part of it that is in the host's memory for certain.
    pub fn touched(&self) -> Bytes {
        let held = self.held.map(|held| held.of_guest().less(held.own.doubtful()));
        held.unwrap_or(self.actual).min(self.actual)
    }

    /// Whether more of the host's memory counts as the guest's than its balloon leaves it: what is
    /// its hypervisor's own was measured wrong, or has grown since.
    pub fn holds_more_than_it_has(&self) -> bool {
        self.resident().is_some_and(|holds| holds > self.actual.plus(SLACK))
    }

    /// Memory that the host has got of it by the balloon: of its whole process, for its
    /// hypervisor's own part may have been measured meanwhile, and no more than it lacks.
    pub fn gained_by_balloon(&self) -> Option<Bytes> {
        let is_asked = self.target.is_some_and(|target| target < self.before.had);
        let both = self.before.held.zip(self.held);
        let came = both.map_or(Bytes::ZERO, |(then, now)| then.less(now.private));
        is_asked.then(|| came.min(self.before.had.less(self.actual)))
    }

    /// The view once there are two samples: rates need two, so the first one puts no guest to
    /// sleep.
    pub fn settled_view(&self) -> Option<Memory> {
        self.view.filter(|_| self.answers.samples >= 2)
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
        self.answers.missing = 0;
        self.sampled(memory_of(sample, self.actual, most, at_ms));
        true
    }

    /// Its balloon is asked for statistics.
    pub fn stats_are_asked(&mut self, now_ms: u64) {
        self.stats_asked_ms = Some(now_ms);
        self.answers.missing = self.answers.missing.saturating_add(1);
    }

    /// True if its balloon is asked and has given no number since the guest started. One that has
    /// ceased to may have its driver in a guest that hangs.
    pub fn is_mute(&self) -> bool {
        !self.answers.by_balloon && self.answers.missing > MUTE_QUESTIONS
    }

    /// Takes its balloon's statistics, as old as the question.
    pub fn balloon_sample(&mut self, stats: &BalloonStats, now_ms: u64) {
        let at_ms = self.stats_asked_ms.unwrap_or(now_ms);
        if [stats.total, stats.free, stats.available].iter().any(Option::is_some) {
            self.answers.by_balloon = true;
        }
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
        self.answers.samples = self.answers.samples.saturating_add(1);
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
        (self.view, self.last_sample) = (None, None);
        (self.answers, self.before) = (Answers::default(), Before::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::Own;

    #[test]
    fn report_h14_balloon_without_numbers_is_mute_after_a_while() {
        let mut memory = GuestMemory::new(Bytes::mib(256));
        let none = BalloonStats { updated_s: 7, swap_in: None, ..BalloonStats::default() };
        for second in 0..11 {
            assert!(!memory.is_mute(), "{second} s");
            memory.stats_are_asked(second * 1000);
            memory.balloon_sample(&none, second * 1000);
        }
        assert!(memory.is_mute());
        let some = BalloonStats { free: Some(Bytes::mib(100)), ..none };
        memory.balloon_sample(&some, 11_000);
        assert!(!memory.is_mute());
        (0..11).for_each(|second| memory.stats_are_asked(12_000 + second * 1000));
        assert!(!memory.is_mute(), "its driver is there, and its time stands still");
        memory.rebooted();
        (0..11).for_each(|second| memory.stats_are_asked(30_000 + second * 1000));
        assert!(memory.is_mute(), "its next kernel may have none");
    }

    #[test]
    fn report_h06_own_part_that_is_measured_meanwhile_is_no_gain() {
        let held = |private, own, is_measured| {
            let own = Own { size: Bytes::mib(own), is_measured };
            Some(InHost { private: Bytes::mib(private), own, ..InHost::default() })
        };
        let mut memory = GuestMemory::new(Bytes::mib(384));
        memory.held = held(501, 32, false);
        memory.ask(Bytes::mib(201));
        memory.actual = Bytes::mib(201);
        memory.held = held(501, 105, true);
        assert_eq!(memory.gained_by_balloon(), Some(Bytes::ZERO));
        memory.held = held(401, 105, true);
        assert_eq!(memory.gained_by_balloon(), Some(Bytes::mib(100)));
        memory.held = held(101, 55, true);
        assert_eq!(memory.gained_by_balloon(), Some(Bytes::mib(183)), "the rest was paged out");
    }

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
        memory.left_at(Bytes::mib(80), false, false, SETTLE_MS - 1);
        assert_eq!(memory.restore(), Bytes::mib(256));
        memory.left_at(Bytes::mib(120), true, false, SETTLE_MS);
        assert_eq!(memory.restore(), Bytes::mib(120));
        memory.left_at(Bytes::mib(110), true, true, SETTLE_MS);
        assert_eq!(memory.restore(), Bytes::mib(120), "its kernel took a part back");
    }

    #[test]
    fn report_h10_guest_stays_held_while_its_driver_is_away() {
        let mut memory = GuestMemory::new(Bytes::mib(256));
        memory.ask(Bytes::mib(94));
        memory.actual = Bytes::mib(256);
        memory.left_at(Bytes::mib(256), true, false, SETTLE_MS);
        assert_eq!((memory.target, memory.least()), (None, Bytes::mib(94)));
        memory.actual = Bytes::mib(94);
        assert_eq!(memory.restore(), Bytes::mib(256), "its driver has gone back");
        // Others have set it to more, and to less again.
        memory.left_at(Bytes::mib(200), true, false, SETTLE_MS);
        memory.actual = Bytes::mib(150);
        memory.left_at(Bytes::mib(150), false, false, SETTLE_MS);
        assert_eq!((memory.restore(), memory.least()), (Bytes::mib(150), Bytes::mib(150)));
    }
}
