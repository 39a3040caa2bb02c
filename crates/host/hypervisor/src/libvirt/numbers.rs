//! Translation of libvirt's numbers.

use base::Bytes;
use model::{GuestField as G, Row};
use virtrpc::MemoryStat;

use super::guest::Came;
use crate::{Pause, RunState, balloon_row};

/// State of a domain, or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// The domain exists.
    In(RunState),
    Off,
}

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
        // The domain is about to migrate, or has migrated and is not complete yet.
        (PAUSED, 2 | 12 | 13) => Life::In(RunState::Migrating),
        // The domain is paused because its system has crashed.
        (SHUTTING_DOWN | CRASHED, _) | (PAUSED, 10) => Life::In(RunState::Dead),
        (OFF, _) => Life::Off,
        // Any other value is newer than this program, and counts as paused.
        _ => Life::In(RunState::Paused(match (state, reason) {
            (PAUSED, 5) => Pause::DiskError,
            (PAUSED, 6) => Pause::Watchdog,
            // The domain is being saved or dumped, or a snapshot is being created or restored.
            (PAUSED, 3 | 4 | 7 | 9) => Pause::Saved,
            (PAUSED, 11) => Pause::NotStarted,
            (ASLEEP, _) => Pause::Suspended,
            _ => Pause::ByHand,
        })),
    }
}

/// Returns how a domain arrived, by the detail of the event. Returns `None` for a domain that
/// booted, or that existed before and woke up.
pub(super) fn came(detail: i32) -> Option<Came> {
    match detail {
        // A domain from a snapshot has the snapshot's configuration.
        1 | 3 => Some(Came::Moved),
        2 => Some(Came::Restored),
        _ => None,
    }
}

/// Returns the reason why a domain stopped, by the detail of the event.
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

/// Returns true if a domain with this detail was stopped in order: by its guest, or by a user
/// through libvirt. A QEMU that vanishes counts as crashed or failed in libvirt.
pub(super) fn is_in_order(detail: i32) -> bool {
    matches!(detail, 0 | 1 | 3 | 4 | 6)
}

/// Tag of the time of the guest's statistics, in seconds since 1970.
const LAST_UPDATE: i32 = 9;

/// Translates the statistics; `None` if the guest has never sent any.
pub(super) fn stats(list: &[MemoryStat], most: Bytes) -> Option<Row<G>> {
    let updated = list.iter().find(|stat| stat.tag == LAST_UPDATE && stat.value > 0)?;
    let values = list.iter().filter_map(|stat| {
        // A size that overflows is an invalid value of the guest and is left out.
        let size = stat.value.checked_mul(1024);
        match stat.tag {
            0 => Some((G::BalloonSwapIn, size)),
            1 => Some((G::BalloonSwapOut, size)),
            2 => Some((G::BalloonMajorFaults, Some(stat.value))),
            4 => Some((G::BalloonFree, size)),
            5 => Some((G::BalloonTotal, size)),
            8 => Some((G::BalloonAvailable, size)),
            10 => Some((G::BalloonCached, size)),
            _ => None,
        }
    });
    Some(balloon_row(updated.value, most, values))
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
    fn sizes_are_bytes_and_missing_values_are_none() {
        let list = [(2, 7), (5, 1024), (4, u64::MAX), (9, 1_700_000_000), (77, 1)];
        let list = list.map(|(tag, value)| MemoryStat { tag, value });
        let values = [(G::BalloonTotal, Some(1 << 20)), (G::BalloonMajorFaults, Some(7))];
        let expected = balloon_row(1_700_000_000, Bytes::mib(1), values);
        assert_eq!(stats(&list, Bytes::mib(1)), Some(expected));
        assert_eq!(stats(&list[..3], Bytes::mib(1)), None);
    }
}
