//! What the host gains when a guest gives: not all that a balloon takes is in the host's memory.
//!
//! ```text
//!   what a guest has ─┬─ free ─┬─ never touched, or reported as free: the host gains nothing
//!                     │        └─ loose: still in the host's memory
//!                     └─ kept: programs, caches                         (resident − kept = loose)
//! ```
//!
//! A balloon takes free memory first, and what is loose in it as it comes; then caches. What is
//! resident may be more than the guest, where its hypervisor's own part can only be estimated, and
//! a balloon may give the host nothing at all. So what really came is learnt from each move, and
//! forgotten in time.

use super::sample::GuestSample;
use counters::Bytes;

/// A lesson is taken from moves that were to bring so much.
const JUDGED: Bytes = Bytes::mib(8);
/// If less than this came, in thousandths, nothing came.
const NOTHING_PERMILLE: u64 = 100;
/// A lesson is forgotten within this; where nothing came, it is tried again then,
const FORGET_MS: u64 = 600_000;
/// and after twice as long each time that nothing came again, up to 160 minutes.
const DOUBLINGS_MAX: u32 = 4;
/// Free memory of a guest for each byte of it in the host's memory, from which on it gives last.
const THIN: u64 = 4;
/// A hypervisor's own part grows by less between two measures.
const OWN_GROWTH: Bytes = Bytes::mib(32);
/// No more than this of a hypervisor's own part is taken for its guest's memory.
const OWN_MAX: Bytes = Bytes::mib(256);

/// What the host got of one kind of memory of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lesson {
    asked: Bytes,
    got: Bytes,
    at_ms: u64,
    /// The least that was resident since.
    resident: Bytes,
    /// How often in a row nothing came.
    barren: u32,
}

impl Lesson {
    fn learn(&mut self, asked: Bytes, got: Bytes, resident: Bytes, now_ms: u64) {
        if now_ms.saturating_sub(self.at_ms) >= self.forget_ms() {
            (self.asked, self.got) = (Bytes::ZERO, Bytes::ZERO);
        }
        // What came last counts most.
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

    /// What comes of a thousand, by what was seen and is not forgotten.
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

/// What comes of an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    permille: u64,
    /// What was touched since that was learnt: all of it comes.
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

    /// The amount that brings so much.
    fn for_gain(&self, gain: Bytes) -> Bytes {
        let old = gain.less(self.grown);
        gain.min(self.grown).plus(scaled(old, 1000, self.permille))
    }
}

/// `amount` × `by` / `of`; as much as there can be where `of` is 0 and `amount` is not.
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

/// What was learnt of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Yield {
    /// Of its free memory.
    loose: Lesson,
    /// Of all else.
    rest: Lesson,
    /// The size before the last move, if nothing came of that and it was seen that all stayed.
    in_vain: Option<Bytes>,
}

impl Yield {
    /// A move has ended: the guest as it was when it began, the size that it has now, what the host
    /// has got of it, and what of it is resident.
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
        // That caches were in the host's memory is certain; free memory is taken for it.
        let of_rest = got.min(rest);
        if rest > Bytes::ZERO {
            self.rest.learn(rest, of_rest, resident, now_ms);
        }
        if loose > Bytes::ZERO {
            self.loose.learn(loose, got.less(of_rest), resident, now_ms);
            // More stayed than a hypervisor could have for itself: nothing at all comes out.
            let stays = in_vain.is_some() || resident.less(reached) > OWN_MAX;
            if stays && got < loose.permille(NOTHING_PERMILLE) && rest == Bytes::ZERO {
                self.rest.learn(loose, Bytes::ZERO, resident, now_ms);
            }
        }
    }

    /// The size that a guest had before it gave in vain.
    pub fn in_vain(&self) -> Option<Bytes> {
        self.in_vain
    }

    /// What is resident now.
    pub fn see(&mut self, resident: Bytes) {
        for lesson in [&mut self.loose, &mut self.rest] {
            lesson.resident = lesson.resident.min(resident);
        }
    }

    /// It started again: its free memory is another.
    pub fn forget_loose(&mut self) {
        (self.loose, self.in_vain) = (Lesson::default(), None);
    }
}

/// A guest's memory, and what of it is in the host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    actual: Bytes,
    resident: Option<Bytes>,
    /// Memory of its whole process: the hypervisor's own part may be measured at any time.
    private: Option<Bytes>,
    /// What of it is in the host's swap, while the host pages.
    swapped: Option<Bytes>,
    /// What of `actual` is resident at most.
    touched: Bytes,
    free: Bytes,
    /// What of `free` is in the host's memory, as far as is seen.
    loose: Bytes,
    /// The same by what was learnt.
    comes: Bytes,
    /// That much was touched since nothing came, and no more of it is hoped for.
    is_new: bool,
    /// What would come of it if nothing had been learnt.
    hoped: Bytes,
    rest: Rate,
    /// What is free is not known, but for what was never touched.
    is_guessed: bool,
}

impl Holding {
    /// Of a guest with `actual`, of which so much is free by its own word. What of `resident` is
    /// doubtful is not hoped for, as long as nothing was learnt.
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
        // What a balloon took is gone where no more is left than the guest has: then only the
        // hypervisor's own part can have been taken for the guest's.
        // After a move in vain it has that back, and the rest stays as it did then.
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

    /// The same on a host that pages: what it drops there need not come back, which is a gain too.
    /// What a guest has not used for long its host has not either, and has in its swap.
    pub fn on_a_host_that_pages(self, swapped: Option<Bytes>) -> Holding {
        Holding { swapped, ..self }
    }

    /// The same of a process that has so much for itself.
    pub fn in_process(self, private: Option<Bytes>) -> Holding {
        Holding { private, ..self }
    }

    /// Memory that the host had of it, and has of it now: both by one measure.
    pub fn change(&self, sample: &GuestSample) -> Option<(Bytes, Bytes)> {
        self.private.zip(sample.process.private).or_else(|| self.resident.zip(sample.resident))
    }

    /// Memory that the host has got of it since, with what need not be paged any more.
    pub fn got(&self, sample: &GuestSample) -> Option<Bytes> {
        let (was, is) = self.change(sample)?;
        Some(match self.swapped.zip(sample.swapped) {
            Some((then, now)) => was.plus(then).less(is.plus(now)),
            None => was.less(is),
        })
    }

    /// Returns whether nothing came of its way to this size, and the host still has more of the
    /// guest than that. Its balloon takes then, and gives nothing on.
    pub fn is_in_vain(&self, reached: Bytes, sample: &GuestSample) -> bool {
        let (hoped, got) = (self.hoped_gain(reached), self.got(sample));
        let is_nothing = got.is_some_and(|got| got < hoped.permille(NOTHING_PERMILLE));
        let resident = sample.resident.filter(|_| sample.process.private.is_some());
        let least = resident.map(|resident| resident.less(sample.doubtful));
        let stays = least.is_some_and(|least| least >= reached.plus(OWN_GROWTH));
        hoped >= JUDGED && is_nothing && stays
    }

    /// What of its free memory and of the rest is taken if it goes to this size, as far as that is
    /// seen to be in the host's memory.
    fn parts(&self, to: Bytes) -> (Bytes, Bytes) {
        let taken = self.actual.less(to);
        (self.share_of(self.loose, to), taken.less(self.free).min(self.touched.less(self.loose)))
    }

    /// What the host gains if it goes to this size, by what was learnt of it.
    pub fn gain(&self, to: Bytes) -> Bytes {
        let (loose, rest) = self.parts(to);
        let loose = match self.is_new {
            true => loose.min(self.comes),
            false => self.share_of(self.comes, to),
        };
        loose.plus(self.rest.of(rest))
    }

    /// The same if nothing had been learnt.
    pub fn hoped_gain(&self, to: Bytes) -> Bytes {
        let (_, rest) = self.parts(to);
        self.share_of(self.hoped, to).plus(rest)
    }

    /// What is taken of this part of its free memory if it goes to this size.
    fn share_of(&self, part: Bytes, to: Bytes) -> Bytes {
        scaled(part, self.actual.less(to).min(self.free).0, self.free.0.max(1))
    }

    /// The size to go to, so that the host gains this much.
    pub fn size_for(&self, gain: Bytes) -> Bytes {
        let of = if self.is_new { self.loose } else { self.comes };
        let taken = match gain <= self.comes {
            true => scaled(gain, self.free.0, of.0),
            false => self.free.plus(self.rest.for_gain(gain.less(self.comes))),
        };
        self.actual.less(taken)
    }

    /// Returns whether a balloon takes mostly free memory that the host does not have: the guest
    /// would lose [`THIN`] times what the host gains.
    pub fn is_thin(&self) -> bool {
        self.free > Bytes::ZERO && self.comes.0.saturating_mul(THIN) < self.free.0
    }

    /// How much may be taken at once. A guest that said what is free has that at hand.
    pub fn at_once(&self) -> Bytes {
        let quarter = Bytes(self.actual.0 / 4);
        if self.is_guessed { quarter } else { self.free.plus(quarter) }
    }
}
