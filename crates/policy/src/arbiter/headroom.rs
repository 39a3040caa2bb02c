//! The room that a guest is left to breathe.

use super::sample::GuestSample;
use super::view::MemoryView;
use counters::Bytes;

/// At least,
pub(super) const HEADROOM_MIN: Bytes = Bytes::mib(32);
/// and at most, as long as it has not shown that it needs more.
const HEADROOM_MAX: Bytes = Bytes::mib(1024);

/// Of any guest of its kind.
pub(super) fn plain(view: &MemoryView, sample: &GuestSample) -> Bytes {
    // A guest whose kernel kills before it takes memory back is left more.
    let share = if sample.deflates_on_oom { 8 } else { 4 };
    Bytes(view.used.0 / share).clamp(HEADROOM_MIN, HEADROOM_MAX)
}

/// Of one to which that turned out too little so often: twice as much each time, up to half of what
/// it uses. A small guest uses little, and may have twice its room all the same.
pub(super) fn learnt(plain: Bytes, used: Bytes, lessons: u32) -> Bytes {
    Bytes(plain.0 << lessons).min(Bytes(plain.0 * 2).max(Bytes(used.0 / 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_that_was_too_little_is_doubled_up_to_half_of_what_is_used_or_once() {
        let rooms = |plain, used| {
            [0, 1, 2, 3, 7]
                .map(|lessons| learnt(Bytes::mib(plain), Bytes::mib(used), lessons).as_mib())
        };
        assert_eq!(rooms(50, 400), [50, 100, 200, 200, 200]);
        assert_eq!(rooms(32, 20), [32, 64, 64, 64, 64]);
    }
}
