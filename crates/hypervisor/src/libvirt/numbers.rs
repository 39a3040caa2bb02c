//! libvirt's numbers, and what they mean here.

use counters::Bytes;
use virtrpc::MemoryStat;

use super::guest::Came;
use crate::{BalloonStats, Pause, RunState};

/// How a domain is, or that it is not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// It is there.
    In(RunState),
    /// It is off.
    Off,
}

/// What a state and its reason mean.
pub(super) fn life(state: i32, reason: i32) -> Life {
    const RUNNING: i32 = 1;
    const BLOCKED: i32 = 2;
    const PAUSED: i32 = 3;
    const SHUTTING_DOWN: i32 = 4;
    const OFF: i32 = 5;
    const CRASHED: i32 = 6;
    const ASLEEP: i32 = 7;
    match (state, reason) {
        (RUNNING | BLOCKED, _) => Life::In(RunState::Running),
        // It is about to move, or has moved and is not all there yet.
        (PAUSED, 2 | 12 | 13) => Life::In(RunState::Migrating),
        // Paused since its system has crashed.
        (SHUTTING_DOWN | CRASHED, _) | (PAUSED, 10) => Life::In(RunState::Dead),
        (OFF, _) => Life::Off,
        // Or something that is newer than this program: nothing is asked of it.
        _ => Life::In(RunState::Paused(match (state, reason) {
            (PAUSED, 5) => Pause::DiskError,
            (PAUSED, 6) => Pause::Watchdog,
            // It is saved, dumped, or a snapshot of it is taken or brought back.
            (PAUSED, 3 | 4 | 7 | 9) => Pause::Saved,
            (PAUSED, 11) => Pause::NotStarted,
            (ASLEEP, _) => Pause::Suspended,
            _ => Pause::ByHand,
        })),
    }
}

/// The way that a domain came, by the detail of the event. One that woke up was there before.
pub(super) fn came(detail: i32) -> Option<Came> {
    match detail {
        // From a snapshot: its configuration is the snapshot's as well.
        1 | 3 => Some(Came::Moved),
        2 => Some(Came::Restored),
        _ => None,
    }
}

/// Why a domain stopped, by the detail of the event.
pub(super) fn why_stopped(detail: i32) -> &'static str {
    match detail {
        0 => "it shut down",
        1 => "it was destroyed",
        2 => "it crashed",
        3 => "it moved to another host",
        4 => "it was saved to a file",
        5 => "its hypervisor failed",
        6 => "it was replaced by a snapshot",
        _ => "it stopped",
    }
}

/// Returns whether a domain that stopped with this detail was ended in order: by its guest, or by
/// somebody through libvirt. A QEMU that goes without a word has crashed, or failed, to libvirt.
pub(super) fn is_in_order(detail: i32) -> bool {
    matches!(detail, 0 | 1 | 3 | 4 | 6)
}

/// The time of the guest's statistics, in seconds since 1970.
const LAST_UPDATE: i32 = 9;

/// The statistics in our terms; `None` where the guest has never given any.
pub(super) fn stats(list: &[MemoryStat]) -> Option<BalloonStats> {
    let updated = list.iter().find(|stat| stat.tag == LAST_UPDATE && stat.value > 0)?;
    let mut stats = BalloonStats { updated_s: updated.value, ..BalloonStats::default() };
    for stat in list {
        // A size that does not fit is a guest's lie and is left out.
        let size = stat.value.checked_mul(1024).map(Bytes);
        match stat.tag {
            0 => stats.swap_in = size,
            1 => stats.swap_out = size,
            2 => stats.major_faults = Some(stat.value),
            4 => stats.free = size,
            5 => stats.total = size,
            8 => stats.available = size,
            10 => stats.caches = size,
            _ => {}
        }
    }
    Some(stats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_their_reasons() {
        assert_eq!(life(1, 1), Life::In(RunState::Running));
        assert_eq!(life(3, 1), Life::In(RunState::Paused(Pause::ByHand)));
        assert_eq!(life(3, 2), Life::In(RunState::Migrating));
        assert_eq!(life(4, 0), Life::In(RunState::Dead));
        assert_eq!(life(5, 3), Life::Off);
        assert_eq!(life(7, 0), Life::In(RunState::Paused(Pause::Suspended)));
        assert_eq!(life(99, 0), Life::In(RunState::Paused(Pause::ByHand)));
    }

    #[test]
    fn report_h14_a_paused_domain_says_why() {
        let why = |reason| match life(3, reason) {
            Life::In(RunState::Paused(why)) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(why(5), Pause::DiskError);
        assert_eq!(why(6), Pause::Watchdog);
        assert_eq!(why(3), Pause::Saved);
        assert_eq!(why(11), Pause::NotStarted);
        assert_eq!(life(3, 10), Life::In(RunState::Dead));
    }

    #[test]
    fn sizes_are_bytes_and_what_is_missing_is_missing() {
        let list = [(2, 7), (5, 1024), (4, u64::MAX), (9, 1_700_000_000), (77, 1)];
        let list = list.map(|(tag, value)| MemoryStat { tag, value });
        let expected = BalloonStats {
            updated_s: 1_700_000_000,
            total: Some(Bytes(1 << 20)),
            major_faults: Some(7),
            ..BalloonStats::default()
        };
        assert_eq!(stats(&list), Some(expected));
        assert_eq!(stats(&list[..3]), None);
    }
}
