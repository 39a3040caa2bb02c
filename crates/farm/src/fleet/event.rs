//! What happens to the guests of a fleet.

use agent::Captured;

/// Something that happened in a turn.
#[derive(Debug)]
pub enum Event {
    /// The daemon of this guest sent its hello.
    Up(usize),
    /// The guest of this place starts again, in the same QEMU. Its firmware's own reset, a moment
    /// after that, is no event.
    Reset(usize),
    /// The guest of this place has hung in its boot; the note has what was kept of it. It is
    /// started again or ends, without another event of this kind.
    Hung {
        /// Whose boot.
        guest: usize,
        /// What happened.
        note: String,
    },
    /// Something that its owner should know, in words.
    Note(String),
    /// The guest of this place is parked, and its memory is paged out.
    Parked(usize),
    /// The guest of this place was parked, and runs.
    Woken(usize),
    /// The guest of this place has ended; its state says how.
    Ended(usize),
    /// A captured file is complete, or will never be.
    Captured {
        /// Whose file.
        guest: usize,
        /// The file.
        captured: Captured,
    },
}
