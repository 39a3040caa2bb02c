//! The state of a guest's memory: samples, the arbiter's view of the samples, and the resident
//! part.

use super::counted::Counted;
use super::sample;
use crate::outside::InHost;
use base::Bytes;
use hypervisor::Usage;
use model::{GuestField, Row};
use policy::arbiter::Memory;

/// Interval between readings of a sleeping guest's resident memory.
const RESIDENT_MS: u64 = 5_000;

/// Time after which a balloon that an earlier manager left in motion has stopped.
const SETTLE_MS: u64 = 15_000;

/// Maximum size of the balloon's pages that the hypervisor has not freed yet.
const SLACK: Bytes = Bytes::mib(8);

/// Number of unanswered requests for statistics since the guest's start above which the balloon
/// counts as mute. A request is sent once a second.
const MUTE_QUESTIONS: u32 = 10;

/// Message about a mute balloon, with advice.
pub(crate) const MUTE: &str = "its balloon reports no statistics: load virtio_balloon in the \
                               guest, start BLNSVR in Windows, or release the guest with \
                               `pinhead set`";
/// Message about a missing balloon, with advice.
pub(crate) const NO_BALLOON: &str = "it has no balloon: add a virtio-balloon device (libvirt: \
                                     <memballoon model='virtio'/>)";

/// Memory of a guest.
#[derive(Debug, Default)]
pub struct GuestMemory {
    /// Actual memory of the guest.
    pub actual: Bytes,
    /// Actual memory as the hypervisor reported it, which may exceed the known size of the guest.
    pub told: Bytes,
    /// Last target of the balloon, set by this manager.
    pub target: Option<Bytes>,
    /// The arbiter's view of the last sample, dated at the time of the request.
    pub view: Option<Memory>,
    /// Last sample, for the record. Empty before the first sample.
    pub sample: Row<GuestField>,
    /// z/VM's counters, if the guest is a user of z/VM.
    pub counted: Option<Counted>,
    /// Time of an open request.
    pub question_ms: Option<u64>,
    /// Time of the last request for balloon statistics.
    pub stats_asked_ms: Option<u64>,
    /// Memory resident on the host.
    pub held: Option<InHost>,
    /// True during a page-out of the guest. Memory that leaves the guest meanwhile is not counted
    /// as returned by page reporting.
    pub is_taken: bool,
    /// Memory returned by free page reporting.
    pub reported: Bytes,
    before: Before,
    answers: Answers,
    resident_ms: Option<u64>,
    restore: Restore,
}

/// Memory of a guest before a request to inflate the balloon.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    /// Largest size observed by the host.
    had: Bytes,
    /// Largest private memory of the process.
    held: Option<Bytes>,
}

/// Counts of responses to requests for memory samples.
#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    samples: u32,
    /// Requests for statistics since the daemon's last sample.
    missing: u32,
    /// True once the balloon has reported statistics since the guest's start. The balloon's driver
    /// is then loaded.
    by_balloon: bool,
    /// True if the last sample is the balloon's.
    last_is_balloons: bool,
}

/// Size that the guest gets back when management ends.
#[derive(Clone, Copy, Debug, Default)]
struct Restore {
    size: Bytes,
    /// Time until which the balloon may still move to a former manager's target.
    settles_ms: u64,
    /// True if the size is known from a manager on this host.
    is_certain: bool,
    /// Target before the guest's size rose without a request. If the balloon's driver was only
    /// reloaded, the balloon inflates to this target again.
    risen_from: Option<Bytes>,
}

impl GuestMemory {
    /// Returns the state of a guest with `actual` memory.
    pub fn new(actual: Bytes) -> GuestMemory {
        let restore = Restore { size: actual, ..Restore::default() };
        GuestMemory { actual, told: actual, restore, ..GuestMemory::default() }
    }

    /// Returns the size to restore at the manager's end: the size when the guest was found, or the
    /// size that another manager has set since.
    pub fn restore(&self) -> Bytes {
        self.restore.size
    }

    /// Sets the size to restore for a guest that arrived smaller, because of an earlier manager,
    /// another host or its `pinhead up`.
    pub fn had(&mut self, size: Bytes, now_ms: u64) {
        let settles_ms = now_ms + SETTLE_MS;
        self.restore = Restore { size, settles_ms, ..Restore::default() };
    }

    /// Makes the size to restore certain. The size is from a manager on this host, so later reports
    /// do not change it.
    pub fn settle_restore(&mut self) {
        self.restore.is_certain = true;
    }

    /// Handles the size in the guest's configuration. Returns true if that is the size to restore.
    pub fn is_configured(&mut self, size: Bytes, now_ms: u64) -> bool {
        if !self.restore.is_certain {
            self.had(size.max(self.actual), now_ms);
        }
        !self.restore.is_certain
    }

    /// Handles a balloon moved by others, or deflated by the guest's kernel.
    pub fn left_at(&mut self, size: Bytes, rose: bool, is_own: bool, now_ms: u64) {
        if is_own || now_ms < self.restore.settles_ms {
            self.restore.size = self.restore.size.max(size);
            return;
        }
        self.restore.risen_from = self.target.or(self.restore.risen_from).filter(|_| rose);
        (self.restore.size, self.target) = (size, None);
    }

    /// Returns true if a size can occur during a shrink to this manager's target.
    pub fn is_on_its_way(&self, size: Bytes) -> bool {
        self.target.is_some_and(|target| target <= size.plus(SLACK))
    }

    /// Handles hotplug of memory. The size to restore changes by the same amount.
    pub fn replugged(&mut self, before: Bytes, now: Bytes) {
        self.actual = self.told.min(now);
        self.restore.size = self.restore.size.plus(now.less(before)).less(before.less(now));
    }

    /// Returns the actual size, or a smaller target that the balloon is moving to or returning to.
    pub fn least(&self) -> Bytes {
        self.target.or(self.restore.risen_from).unwrap_or(self.actual).min(self.actual)
    }

    /// Notes a new target of the balloon.
    pub fn ask(&mut self, size: Bytes) {
        self.before.had = self.had_before(size);
        if size < self.actual {
            self.before.held = self.before.held.max(self.held.map(|held| held.private));
        }
        (self.target, self.restore.risen_from) = (Some(size), None);
    }

    /// Returns the largest size that the host observed before its requests to shrink the guest.
    /// `size` is the newest request. The guest's own report is not trusted as a measure of the
    /// reclaimed memory.
    pub fn had_before(&self, size: Bytes) -> Bytes {
        match size < self.actual {
            // Memory shared with a template counts too, because the guest needs its own copy after
            // a write.
            true => self
                .before
                .had
                .max(self.held.map_or(self.actual, |held| held.resident()).min(self.actual)),
            false => self.before.had,
        }
    }

    /// Returns the resident memory private to the guest.
    pub fn resident(&self) -> Option<Bytes> {
        self.held.map(|held| held.of_guest())
    }

    /// Returns the part of the guest's memory that is certainly resident.
    pub fn touched(&self) -> Bytes {
        let held = self.held.map(|held| held.of_guest().less(held.own.doubtful()));
        held.unwrap_or(self.actual).min(self.actual)
    }

    /// Returns true if the guest's private resident memory exceeds the size that the balloon leaves
    /// to the guest. The hypervisor's own part was then measured wrong, or has grown since.
    pub fn holds_more_than_it_has(&self) -> bool {
        self.resident().is_some_and(|holds| holds > self.actual.plus(SLACK))
    }

    /// Returns the memory that the host gained by the balloon, at most the memory that the guest
    /// lacks. The gain is computed from the whole process, because the hypervisor's own part may
    /// have been measured only after the shrink.
    pub fn gained_by_balloon(&self) -> Option<Bytes> {
        let is_asked = self.target.is_some_and(|target| target < self.before.had);
        let both = self.before.held.zip(self.held);
        let came = both.map_or(Bytes::ZERO, |(then, now)| then.less(now.private));
        is_asked.then(|| came.min(self.before.had.less(self.actual)))
    }

    /// Returns the view if there were at least two samples. Rates need two samples, so no guest
    /// counts as idle after its first sample.
    pub fn settled_view(&self) -> Option<Memory> {
        self.view.filter(|_| self.answers.samples >= 2)
    }

    /// Stores the daemon's sample, which is at least as new as `true_ms`. Returns true if the
    /// sample is new.
    pub fn daemon_sample(
        &mut self,
        sample: &wire::Memory,
        true_ms: Option<u64>,
        most: Bytes,
    ) -> bool {
        self.sample = sample::of_daemon(sample, most);
        self.answers.last_is_balloons = false;
        let Some(at_ms) = true_ms else { return false };
        self.answers.missing = 0;
        self.sampled(sample::memory_of(&self.sample, self.actual, at_ms));
        true
    }

    /// Notes a request for statistics.
    pub fn stats_are_asked(&mut self, now_ms: u64) {
        self.stats_asked_ms = Some(now_ms);
        self.answers.missing = self.answers.missing.saturating_add(1);
    }

    /// Returns true if the balloon has answered no request with statistics since the guest's start.
    /// A balloon that responded before is not mute, because its guest may only hang.
    pub fn is_mute(&self) -> bool {
        !self.answers.by_balloon && self.answers.missing > MUTE_QUESTIONS
    }

    /// Returns true if the balloon has reported no statistics since the guest's start, and may
    /// still do so.
    pub fn may_be_mute(&self) -> bool {
        !self.answers.by_balloon && !self.is_mute()
    }

    /// Takes the balloon's statistics, dated at the time of the request.
    pub fn balloon_sample(&mut self, stats: Row<GuestField>, now_ms: u64) {
        use GuestField as G;
        let at_ms = self.stats_asked_ms.unwrap_or(now_ms);
        let numbers = [G::BalloonTotal, G::BalloonFree, G::BalloonAvailable];
        self.answers.by_balloon |= numbers.iter().any(|field| stats.get(*field).is_some());
        self.answers.last_is_balloons = true;
        self.sampled(sample::memory_of(&stats, self.actual, at_ms));
        self.sample = stats;
    }

    /// Returns true if the last sample is the balloon's.
    pub fn is_sample_balloons(&self) -> bool {
        self.answers.last_is_balloons
    }

    /// Stores z/VM's counters, which are the only data about the guest. Returns the usage of the
    /// virtual CPUs.
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

    /// Returns true if resident memory was last read long ago.
    pub fn is_resident_old(&self, now_ms: u64) -> bool {
        self.resident_ms.is_none_or(|at| now_ms >= at + RESIDENT_MS)
    }

    /// Handles a reading of resident memory. If the guest has page reporting, a decrease since the
    /// last reading counts as returned memory, unless the balloon inflates or a page-out runs.
    pub fn read_held(&mut self, now: Option<InHost>, reports: bool, now_ms: u64) {
        self.resident_ms = Some(now_ms);
        let Some(now) = now else { return };
        let takes = self.is_taken || self.target.is_some_and(|target| target < self.actual);
        if let Some(before) = self.held.filter(|_| reports && !takes) {
            self.reported = self.reported.plus(before.private.less(now.private));
        }
        self.held = Some(now);
    }

    /// Drops earlier reports, which are wrong after a reboot.
    pub fn rebooted(&mut self) {
        self.view = None;
        self.sample.clear();
        (self.answers, self.before) = (Answers::default(), Before::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::Own;
    use hypervisor::balloon_row;

    #[test]
    fn report_h14_balloon_without_numbers_is_mute_after_a_while() {
        let mut memory = GuestMemory::new(Bytes::mib(256));
        let with = |free| balloon_row(7, Bytes::mib(256), [(GuestField::BalloonFree, free)]);
        for second in 0..11 {
            assert!(!memory.is_mute(), "{second} s");
            memory.stats_are_asked(second * 1000);
            memory.balloon_sample(with(None), second * 1000);
        }
        assert!(memory.is_mute());
        memory.balloon_sample(with(Some(1)), 11_000);
        assert!(!memory.is_mute());
        (0..11).for_each(|second| memory.stats_are_asked(12_000 + second * 1000));
        assert!(!memory.is_mute(), "its driver is loaded, and the guest hangs");
        memory.rebooted();
        (0..11).for_each(|second| memory.stats_are_asked(30_000 + second * 1000));
        assert!(memory.is_mute(), "the next kernel may have no driver");
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
    fn resident_memory_beyond_the_balloons_size_is_detected() {
        let mut memory = GuestMemory::new(Bytes::mib(116));
        assert!(!memory.holds_more_than_it_has(), "there is no reading");
        let own = Own { size: Bytes::mib(11), is_measured: true };
        memory.held = Some(InHost { private: Bytes::mib(172), own, ..InHost::default() });
        assert!(memory.holds_more_than_it_has());
        let own = Own { size: Bytes::mib(78), is_measured: true };
        memory.held = Some(InHost { private: Bytes::mib(200), own, ..InHost::default() });
        assert!(!memory.holds_more_than_it_has(), "some pages are not freed yet");
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
        assert_eq!(memory.restore(), Bytes::mib(120), "the guest's kernel took a part back");
    }

    #[test]
    fn report_h10_guest_stays_held_while_its_driver_is_away() {
        let mut memory = GuestMemory::new(Bytes::mib(256));
        memory.ask(Bytes::mib(94));
        memory.actual = Bytes::mib(256);
        memory.left_at(Bytes::mib(256), true, false, SETTLE_MS);
        assert_eq!((memory.target, memory.least()), (None, Bytes::mib(94)));
        memory.actual = Bytes::mib(94);
        assert_eq!(memory.restore(), Bytes::mib(256), "the driver has gone back to its target");
        // Another manager has raised the size, and lowered it again.
        memory.left_at(Bytes::mib(200), true, false, SETTLE_MS);
        memory.actual = Bytes::mib(150);
        memory.left_at(Bytes::mib(150), false, false, SETTLE_MS);
        assert_eq!((memory.restore(), memory.least()), (Bytes::mib(150), Bytes::mib(150)));
    }
}
