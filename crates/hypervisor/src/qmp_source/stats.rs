//! The request for statistics through a monitor: its calls as commands, and QEMU's responses.

use counters::Bytes;
use qmp::{Command, Value};

use super::link::{Link, Purpose};
use crate::BalloonStats;
use crate::stats_question::{LookPace, StatsCall};

/// Polls are cheap. Each poll is one command on the guest's own socket, with a response in a
/// fraction of a millisecond.
pub(super) const PACE: LookPace = LookPace { first_ms: 4, most_ms: 250 };

/// Makes a call of the request. Returns false if too many requests are open.
pub(super) fn make(call: StatsCall, device: &str, link: &mut Link, now_ms: u64) -> bool {
    let get = |property| Command::QomGet { path: device.to_owned(), property };
    let (purpose, command) = match call {
        StatsCall::Period => (Purpose::StatsPeriod, get("guest-stats-polling-interval")),
        StatsCall::Known => (Purpose::StatsKnown, get("guest-stats")),
        StatsCall::SetPeriod(interval_seconds) => {
            let device_path = device.to_owned();
            let command = Command::SetStatsInterval { device_path, interval_seconds };
            (Purpose::StatsSet(interval_seconds), command)
        }
    };
    link.ask(purpose, command, now_ms)
}

/// Returns true if a response belongs to the request.
pub(super) fn is_ours(purpose: &Purpose) -> bool {
    matches!(purpose, Purpose::StatsPeriod | Purpose::StatsKnown | Purpose::StatsSet(_))
}

/// Parses a balloon's `guest-stats`. QEMU shows an unreported statistic as the largest number. An
/// invalid number counts as unreported as well. A guest that has never responded has no statistics.
pub(super) fn parse(value: &Value) -> Option<BalloonStats> {
    let updated_s = value.get("last-update")?.as_u64().filter(|seconds| *seconds > 0)?;
    let stats = value.get("stats")?.as_object()?;
    let number = |name: &str| stats.get(name)?.as_u64().filter(|number| *number != u64::MAX);
    let bytes = |name: &str| number(name).map(Bytes);
    Some(BalloonStats {
        updated_s,
        total: bytes("stat-total-memory"),
        free: bytes("stat-free-memory"),
        available: bytes("stat-available-memory"),
        caches: bytes("stat-disk-caches"),
        swap_in: bytes("stat-swap-in"),
        swap_out: bytes("stat-swap-out"),
        major_faults: number("stat-major-faults"),
    })
}
