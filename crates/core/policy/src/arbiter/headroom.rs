//! Headroom: memory that a shrink leaves free in the guest.

use super::sample::GuestSample;
use super::view::MemoryView;
use base::Bytes;

pub(super) const HEADROOM_MIN: Bytes = Bytes::mib(32);
/// Maximum headroom, unless a guest has shown that it needs more.
const HEADROOM_MAX: Bytes = Bytes::mib(1024);

/// Returns the headroom without any lesson.
pub(super) fn plain(view: &MemoryView, sample: &GuestSample) -> Bytes {
    // A guest needs more headroom if its kernel kills processes before it deflates the balloon.
    let share = if sample.deflates_on_oom { 8 } else { 4 };
    Bytes(view.used.0 / share).clamp(HEADROOM_MIN, HEADROOM_MAX)
}

/// Returns the headroom after it was too small `lessons` times. Each lesson doubles the headroom.
/// The limit is half of the used memory, or twice the plain headroom if that is more.
pub(super) fn learnt(plain: Bytes, used: Bytes, lessons: u32) -> Bytes {
    Bytes(plain.0 << lessons).min(Bytes(plain.0 * 2).max(Bytes(used.0 / 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headroom_doubles_up_to_half_of_used_memory_or_once() {
        let rooms = |plain, used| {
            [0, 1, 2, 3, 7]
                .map(|lessons| learnt(Bytes::mib(plain), Bytes::mib(used), lessons).as_mib())
        };
        assert_eq!(rooms(50, 400), [50, 100, 200, 200, 200]);
        assert_eq!(rooms(32, 20), [32, 64, 64, 64, 64]);
    }
}
