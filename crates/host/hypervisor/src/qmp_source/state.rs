//! Translation of QEMU's run states.

use crate::{Pause, RunState};

/// Returns the run state for a response to `query-status`.
pub(super) fn of_status(status: &qmp::RunState) -> RunState {
    match status.status.as_str() {
        "inmigrate" | "finish-migrate" | "postmigrate" => RunState::Migrating,
        "shutdown" | "guest-panicked" | "internal-error" => RunState::Dead,
        _ if status.running => RunState::Running,
        word => RunState::Paused(pause(word)),
    }
}

fn pause(word: &str) -> Pause {
    match word {
        "io-error" => Pause::DiskError,
        "watchdog" => Pause::Watchdog,
        "suspended" => Pause::Suspended,
        "prelaunch" | "preconfig" => Pause::NotStarted,
        "save-vm" | "restore-vm" => Pause::Saved,
        "debug" => Pause::Debugger,
        _ => Pause::ByHand,
    }
}

/// Returns the run state after an event, if the event alone decides. The current state matters,
/// because a guest is also stopped after a shutdown, and must stay dead.
pub(super) fn of_event(name: &str, now: RunState) -> Option<RunState> {
    match name {
        "SHUTDOWN" | "GUEST_PANICKED" => Some(RunState::Dead),
        "STOP" | "SUSPEND" | "SUSPEND_DISK" if now == RunState::Running => {
            Some(RunState::Paused(Pause::ByHand))
        }
        "RESUME" | "WAKEUP" => Some(RunState::Running),
        _ => None,
    }
}

/// Returns true if a migration with this status is under way. A completed migration is over. After
/// it, the source has a separate run state, and the destination runs.
pub(super) fn is_moving(status: &str) -> bool {
    !matches!(status, "none" | "completed" | "failed" | "cancelled")
}

pub(super) fn joined(run: RunState, is_moving: bool) -> RunState {
    match run {
        RunState::Running | RunState::Paused(_) if is_moving => RunState::Migrating,
        run => run,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qemus_words_are_four_states() {
        let of =
            |running, status: &str| of_status(&qmp::RunState { running, status: status.into() });
        assert_eq!(of(true, "running"), RunState::Running);
        assert_eq!(of(false, "paused"), RunState::Paused(Pause::ByHand));
        assert_eq!(of(false, "io-error"), RunState::Paused(Pause::DiskError));
        assert_eq!(of(false, "something new"), RunState::Paused(Pause::ByHand));
        assert_eq!(of(false, "postmigrate"), RunState::Migrating);
        assert_eq!(of(false, "guest-panicked"), RunState::Dead);
    }

    #[test]
    fn report_h14_qemus_word_for_a_stopped_guest_is_kept() {
        let of = |word: &str| of_status(&qmp::RunState { running: false, status: word.into() });
        for (word, why) in [
            ("watchdog", Pause::Watchdog),
            ("suspended", Pause::Suspended),
            ("prelaunch", Pause::NotStarted),
            ("save-vm", Pause::Saved),
            ("debug", Pause::Debugger),
        ] {
            assert_eq!(of(word), RunState::Paused(why), "{word}");
        }
    }

    #[test]
    fn a_guest_that_is_dead_is_not_paused() {
        assert_eq!(of_event("STOP", RunState::Running), Some(RunState::Paused(Pause::ByHand)));
        assert_eq!(of_event("STOP", RunState::Dead), None);
        assert_eq!(of_event("BALLOON_CHANGE", RunState::Running), None);
        assert_eq!(joined(RunState::Dead, true), RunState::Dead);
        assert_eq!(joined(RunState::Running, true), RunState::Migrating);
        assert!(is_moving("active") && is_moving("postcopy-paused"));
        assert!(!is_moving("completed") && !is_moving("failed"));
    }
}
