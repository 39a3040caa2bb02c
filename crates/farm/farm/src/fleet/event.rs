//! Events of the guests of a fleet.

use agent::Captured;

/// An event that one turn of the fleet reports.
#[derive(Debug)]
pub enum Event {
    /// The guest's daemon sent its hello.
    Up(usize),
    /// The guest reboots in the same QEMU. The firmware's own reset a moment later is not reported.
    Reset(usize),
    /// The guest hung during boot, or was reset after its return from disk. The guest is then
    /// restarted, or the event `Ended` follows.
    Hung {
        /// Index of the guest.
        guest: usize,
        /// Description for the user, with the path of the evidence if evidence was saved.
        note: String,
    },
    /// A message for the owner of the farm.
    Note(String),
    /// The farm needs the time of the guest's next timer, and a manager has the daemon's port.
    WantsTimer(usize),
    /// The guest is parked, and its memory is paged out.
    Parked(usize),
    /// The guest was parked and runs again.
    Woken(usize),
    /// The guest has ended. The guest's state contains the reason.
    Ended(usize),
    /// The requested files of a guest have arrived. Files that will never arrive are left out.
    Captured {
        /// Index of the guest.
        guest: usize,
        /// The files.
        captured: Captured,
    },
}
