//! The host's gain from a shrink. Not all memory that a balloon inflates into is resident on the
//! host.
//!
//! ```text
//!   a guest's memory ─┬─ free ─┬─ never touched, or reported as free: the host gains nothing
//!                     │        └─ loose: still in the host's memory
//!                     └─ kept: programs, caches                         (resident − kept = loose)
//! ```
//!
//! A balloon first takes free memory, of which only a part is resident, and then caches. Resident
//! memory may exceed the guest's memory if the hypervisor's own part is only estimated. A balloon
//! may also return nothing to the host. The real gain is therefore learned from each move, and
//! forgotten after a while.

use super::sample::GuestSample;
use base::Bytes;

/// Minimum expected gain of a move from which the real gain is learned.
const JUDGED: Bytes = Bytes::mib(8);
/// Gain below which a move counts as fruitless, in thousandths of the expected gain.
const NOTHING_PERMILLE: u64 = 100;
/// Time after which a lesson is forgotten, and a fruitless guest is tried again.
const FORGET_MS: u64 = 600_000;
/// Largest number of doublings of `FORGET_MS`. Each further fruitless move doubles the time, up to
/// 160 minutes.
const DOUBLINGS_MAX: u32 = 4;
/// Largest growth of a hypervisor's own part between two measurements.
const OWN_GROWTH: Bytes = Bytes::mib(32);
/// Largest part of a hypervisor's own memory that may be mistaken for guest memory.
const OWN_MAX: Bytes = Bytes::mib(256);

/// Host gain learned for one kind of a guest's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lesson {
    asked: Bytes,
    got: Bytes,
    at_ms: u64,
    /// Least resident memory since the lesson.
    resident: Bytes,
    /// Consecutive moves without a gain.
    barren: u32,
}

impl Lesson {
    fn learn(&mut self, asked: Bytes, got: Bytes, resident: Bytes, now_ms: u64) {
        if now_ms.saturating_sub(self.at_ms) >= self.forget_ms() {
            (self.asked, self.got) = (Bytes::ZERO, Bytes::ZERO);
        }
        // The newest move counts most.
        self.asked = Bytes(self.asked.0 / 2).plus(asked);
        self.got = Bytes(self.got.0 / 2).plus(got.min(asked));
        (self.at_ms, self.resident) = (now_ms, resident);
        match self.seen_permille() >= NOTHING_PERMILLE {
            true => self.barren = 0,
            false => self.barren += 1,
        }
    }

    fn seen_permille(&self) -> u64 {
        match self.asked >= JUDGED {
            true => self.got.0 * 1000 / self.asked.0,
            false => 1000,
        }
    }

    fn forget_ms(&self) -> u64 {
        FORGET_MS << self.barren.saturating_sub(1).min(DOUBLINGS_MAX)
    }

    /// Returns the expected gain in thousandths, from the part of the lesson that is not yet
    /// forgotten.
    fn permille(&self, now_ms: u64) -> u64 {
        let seen = self.seen_permille();
        let forget_ms = self.forget_ms();
        let gone_ms = now_ms.saturating_sub(self.at_ms).min(forget_ms);
        match seen {
            _ if gone_ms == forget_ms => 1000,
            ..NOTHING_PERMILLE => 0,
            _ => seen + (1000 - seen) * gone_ms / forget_ms,
        }
    }

    fn is_known(&self, now_ms: u64) -> bool {
        self.asked >= JUDGED && now_ms.saturating_sub(self.at_ms) < self.forget_ms()
    }

    fn rate(&self, resident: Bytes, now_ms: u64) -> Rate {
        Rate { permille: self.permille(now_ms), grown: resident.less(self.resident) }
    }
}

/// The host's gain from an amount of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    permille: u64,
    /// Memory touched since the lesson. The host gains all of it.
    grown: Bytes,
}

impl Default for Rate {
    fn default() -> Rate {
        Rate { permille: 1000, grown: Bytes::ZERO }
    }
}

impl Rate {
    fn of(&self, amount: Bytes) -> Bytes {
        let grown = amount.min(self.grown);
        grown.plus(amount.less(grown).permille(self.permille))
    }

    /// Returns the amount that yields this gain.
    fn for_gain(&self, gain: Bytes) -> Bytes {
        let old = gain.less(self.grown);
        gain.min(self.grown).plus(scaled(old, 1000, self.permille))
    }
}

/// Returns `amount` × `by` / `of`, or the largest size if only `of` is 0.
fn scaled(amount: Bytes, by: u64, of: u64) -> Bytes {
    match (amount.0, of) {
        (0, _) => Bytes::ZERO,
        (_, 0) => Bytes(u64::MAX),
        (amount, of) => {
            let all = u128::from(amount) * u128::from(by) / u128::from(of);
            Bytes(u64::try_from(all).unwrap_or(u64::MAX))
        }
    }
}

/// Lessons learned about a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Yield {
    /// Lesson about free memory.
    loose: Lesson,
    /// Lesson about all other memory.
    rest: Lesson,
    /// Size before the last moves, if they yielded nothing.
    in_vain: Option<Bytes>,
}

impl Yield {
    /// Learns from a finished move. `before` is the guest's memory at the start, and `reached` its
    /// size now. `got` is the host's gain, and `resident` the resident memory now.
    pub fn learn(
        &mut self,
        before: &Holding,
        reached: Bytes,
        (got, resident): (Bytes, Bytes),
        in_vain: Option<Bytes>,
        now_ms: u64,
    ) {
        self.in_vain = in_vain.map(|size| size.max(self.in_vain.unwrap_or(size)));
        let (loose, rest) = before.parts(reached);
        // Caches were certainly resident. Free memory is only assumed to be resident.
        let of_rest = got.min(rest);
        if rest > Bytes::ZERO {
            self.rest.learn(rest, of_rest, resident, now_ms);
        }
        if loose > Bytes::ZERO {
            self.loose.learn(loose, got.less(of_rest), resident, now_ms);
            // More memory stayed resident than a hypervisor could own, so the balloon returns
            // nothing.
            let stays = in_vain.is_some() || resident.less(reached) > OWN_MAX;
            if stays && got < loose.permille(NOTHING_PERMILLE) && rest == Bytes::ZERO {
                self.rest.learn(loose, Bytes::ZERO, resident, now_ms);
            }
        }
    }

    /// Returns the size before a shrink in vain.
    pub fn in_vain(&self) -> Option<Bytes> {
        self.in_vain
    }

    /// Records the resident memory.
    pub fn see(&mut self, resident: Bytes) {
        for lesson in [&mut self.loose, &mut self.rest] {
            lesson.resident = lesson.resident.min(resident);
        }
    }

    /// Forgets the lesson about free memory after a restart.
    pub fn forget_loose(&mut self) {
        (self.loose, self.in_vain) = (Lesson::default(), None);
    }
}

/// A guest's memory, and its resident part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    actual: Bytes,
    resident: Option<Bytes>,
    /// Private memory of the whole process. The guest's part is not stored separately, because a
    /// new measurement of the hypervisor's own part may change it.
    private: Option<Bytes>,
    /// Memory in the host's swap, while the host swaps.
    swapped: Option<Bytes>,
    /// Upper limit of the resident part of `actual`.
    touched: Bytes,
    free: Bytes,
    /// Resident part of `free`, as far as the host can measure it.
    loose: Bytes,
    /// Gain expected from `free`, by the lessons.
    comes: Bytes,
    /// True if no gain is expected except from memory that was touched since a fruitless move.
    is_new: bool,
    /// Gain expected from `free` without any lesson.
    hoped: Bytes,
    rest: Rate,
    /// True if free memory was not reported. In that case only untouched memory counts as free.
    is_guessed: bool,
}

impl Holding {
    /// Returns the holding of a guest of size `actual` that reported `free` as its free memory.
    /// Before the first lesson, no gain is expected from the doubtful part of `resident`.
    pub fn of(
        actual: Bytes,
        free: Option<Bytes>,
        (resident, doubtful): (Option<Bytes>, Bytes),
        learnt: &Yield,
        now_ms: u64,
    ) -> Holding {
        let touched = resident.unwrap_or(actual).min(actual);
        let guess = actual.less(touched);
        let is_guessed = free.is_none();
        let free = free.map_or(guess, |free| free.min(actual));
        let kept = actual.less(free);
        let loose = touched.less(kept);
        let plain =
            Holding { actual, resident, touched, free, loose, is_guessed, ..Holding::default() };
        let Some(resident) = resident else {
            return Holding { comes: loose, hoped: loose, ..plain };
        };
        // If the resident memory does not exceed the guest's size, the balloon has returned memory
        // to the host. Only the hypervisor's own part can then be mistaken for guest memory. After
        // a fruitless move this comparison proves nothing, because the guest has got its memory
        // back.
        let known = learnt.loose.is_known(now_ms) || learnt.rest.is_known(now_ms);
        let is_gone = resident <= actual && !(learnt.in_vain.is_some() && known);
        let certain = if is_gone { resident.less(OWN_MAX).less(kept) } else { Bytes::ZERO };
        let hoped = resident.less(doubtful).less(kept).min(loose);
        let (rate, mut rest) = (learnt.loose.rate(resident, now_ms), Rate::default());
        let (comes, is_new) = match learnt.loose.is_known(now_ms) {
            true => (rate.of(loose), rate.permille == 0),
            false => (hoped, false),
        };
        if !is_gone {
            rest = learnt.rest.rate(resident, now_ms);
            rest.grown = if is_new { rest.grown.less(comes) } else { rest.grown };
        }
        let (comes, is_new) = match comes < certain.min(loose) {
            true => (certain.min(loose), false),
            false => (comes, is_new),
        };
        Holding { comes, is_new, hoped, rest, ..plain }
    }

    /// Returns the holding on a host that swaps. Memory that the guest drops from the host's swap
    /// is a gain too, because the host need not read it again.
    pub fn on_a_host_that_pages(self, swapped: Option<Bytes>) -> Holding {
        Holding { swapped, ..self }
    }

    /// Returns the holding without free memory, which returns to the host by itself.
    pub fn without_free(self) -> Holding {
        let touched = self.touched.less(self.loose);
        let none = Bytes::ZERO;
        Holding { touched, loose: none, comes: none, hoped: none, is_new: false, ..self }
    }

    /// Returns the holding in a process with this private memory.
    pub fn in_process(self, private: Option<Bytes>) -> Holding {
        Holding { private, ..self }
    }

    /// Returns the host memory of the guest before and now, both measured in the same way.
    pub fn change(&self, sample: &GuestSample) -> Option<(Bytes, Bytes)> {
        self.private.zip(sample.process.private).or_else(|| self.resident.zip(sample.resident))
    }

    /// Returns the memory that the host has gained since this holding, and the swapped memory that
    /// need not be read any more.
    pub fn got(&self, sample: &GuestSample) -> Option<Bytes> {
        let (was, is) = self.change(sample)?;
        Some(match self.swapped.zip(sample.swapped) {
            Some((then, now)) => was.plus(then).less(is.plus(now)),
            None => was.less(is),
        })
    }

    /// Returns true if the move to this size yielded nothing, and more than this size is still
    /// resident. Such a balloon does not return memory to the host.
    pub fn is_in_vain(&self, reached: Bytes, sample: &GuestSample) -> bool {
        let (hoped, got) = (self.hoped_gain(reached), self.got(sample));
        let is_nothing = got.is_some_and(|got| got < hoped.permille(NOTHING_PERMILLE));
        let resident = sample.resident.filter(|_| sample.process.private.is_some());
        let least = resident.map(|resident| resident.less(sample.doubtful));
        let stays = least.is_some_and(|least| least >= reached.plus(OWN_GROWTH));
        hoped >= JUDGED && is_nothing && stays
    }

    /// Returns the resident memory that a move to this size reclaims: free memory, and other
    /// memory.
    fn parts(&self, to: Bytes) -> (Bytes, Bytes) {
        let taken = self.actual.less(to);
        (self.share_of(self.loose, to), taken.less(self.free).min(self.touched.less(self.loose)))
    }

    /// Returns the host's gain from a move to this size, by the lessons.
    pub fn gain(&self, to: Bytes) -> Bytes {
        let (loose, rest) = self.parts(to);
        let loose = match self.is_new {
            true => loose.min(self.comes),
            false => self.share_of(self.comes, to),
        };
        loose.plus(self.rest.of(rest))
    }

    /// Returns the host's gain from a move to this size, without any lesson.
    pub fn hoped_gain(&self, to: Bytes) -> Bytes {
        let (_, rest) = self.parts(to);
        self.share_of(self.hoped, to).plus(rest)
    }

    /// Returns the amount of `part` that a move to this size reclaims. `part` is a part of free
    /// memory.
    fn share_of(&self, part: Bytes, to: Bytes) -> Bytes {
        scaled(part, self.actual.less(to).min(self.free).0, self.free.0.max(1))
    }

    /// Returns the size that yields this gain.
    pub fn size_for(&self, gain: Bytes) -> Bytes {
        let of = if self.is_new { self.loose } else { self.comes };
        let taken = match gain <= self.comes {
            true => scaled(gain, self.free.0, of.0),
            false => self.free.plus(self.rest.for_gain(gain.less(self.comes))),
        };
        self.actual.less(taken)
    }

    /// Returns the most memory that may be reclaimed at once. A guest can give up its reported free
    /// memory immediately.
    pub fn at_once(&self) -> Bytes {
        let quarter = Bytes(self.actual.0 / 4);
        if self.is_guessed { quarter } else { self.free.plus(quarter) }
    }
}
