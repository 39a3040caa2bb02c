//! Rows of the manager for guests that it manages. The daemons of these guests report only to the
//! manager, so the live table queries the manager.

use farm::fleet::{Fleet, Member, State};
use manager::control::{Answer, Ask, GuestRow, ask_manager};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

/// Interval between two requests. An answer costs the manager about as much as a guest's sample.
const ASK_MS: u64 = 5_000;

/// Reason of a guest that the manager at the default socket does not have.
pub(super) const ELSEWHERE: &str = "managed by a `pinhead host` at another socket";

#[derive(Debug, Default)]
pub(super) struct Managed {
    /// Rows by the process id of the guest's QEMU.
    rows: BTreeMap<u32, GuestRow>,
    open: Option<Receiver<Vec<GuestRow>>>,
    /// Processes of the managed guests at the time of the last request.
    asked: BTreeSet<u32>,
    /// Processes of the last request that its answer lacks.
    missing: BTreeSet<u32>,
    next_ms: u64,
}

impl Managed {
    /// Takes an answer that has arrived, and sends the next request when it is due. The request has
    /// a thread of its own, because a manager may answer late and the guests must not wait.
    pub(super) fn refresh(&mut self, fleet: &Fleet, now_ms: u64) {
        match self.open.as_ref().map(Receiver::try_recv) {
            Some(Ok(rows)) => self.take(rows),
            Some(Err(TryRecvError::Disconnected)) => self.take(Vec::new()),
            Some(Err(TryRecvError::Empty)) => return,
            None => {}
        }
        let managed: Vec<&Member> = fleet.members().iter().filter(|m| is_managed(m)).collect();
        if now_ms < self.next_ms || managed.is_empty() {
            return;
        }
        self.asked = managed.into_iter().filter_map(Member::pid).collect();
        self.next_ms = now_ms + ASK_MS;
        let (sender, receiver) = channel();
        let asking = thread::Builder::new().spawn(move || {
            if let Ok(Answer::Ps(ps)) = ask_manager(None, &Ask::Ps) {
                // The table may have ended.
                let _ = sender.send(ps.guests);
            }
        });
        self.open = asking.ok().map(|_| receiver);
    }

    fn take(&mut self, rows: Vec<GuestRow>) {
        self.rows = rows.into_iter().filter_map(|row| Some((row.pid?, row))).collect();
        let has_row = |pid: &u32| self.rows.contains_key(pid);
        self.missing = self.asked.iter().copied().filter(|pid| !has_row(pid)).collect();
        self.open = None;
    }

    /// Returns the number of guests that the manager has besides those of this farm.
    pub(super) fn others(&self, fleet: &Fleet) -> usize {
        let is_managed = |pid: &u32| self.rows.contains_key(pid);
        let ours = fleet.members().iter().filter_map(Member::pid).filter(is_managed).count();
        self.rows.len().saturating_sub(ours)
    }

    pub(super) fn of(&self, member: &Member) -> Option<&GuestRow> {
        self.rows.get(&member.pid()?).filter(|_| is_managed(member))
    }

    /// Returns true if a manager at another socket than the default has the guest.
    pub(super) fn is_elsewhere(&self, member: &Member) -> bool {
        is_managed(member) && member.pid().is_some_and(|pid| self.missing.contains(&pid))
    }
}

fn is_managed(member: &Member) -> bool {
    *member.state() == State::Managed
}

/// Returns a guest's current memory in MiB, and the reason for the last decision, or why the
/// manager cannot decide.
pub(super) fn cells(row: &GuestRow) -> (String, String) {
    let has = row.actual_bytes.map_or_else(|| "-".to_owned(), |has| reports::mib(Some(has)));
    (has, row.unusable.as_ref().or(row.reason.as_ref()).cloned().unwrap_or_default())
}

/// Returns a guest's online CPUs of those present, if its daemon reports them to the manager.
pub(super) fn cpus(row: &GuestRow) -> Option<String> {
    Some(format!("{}/{}", row.cpus_online?, row.cpus_present?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managed_guest_has_its_size_and_the_managers_reason() {
        let row = GuestRow {
            memory_bytes: 256 << 20,
            actual_bytes: Some(96 << 20),
            reason: Some("hold at 96 MiB: no demand".into()),
            ..GuestRow::default()
        };
        assert_eq!(cells(&row), ("96".into(), "hold at 96 MiB: no demand".into()));
        let unusable = Some("it is parked".to_owned());
        let row = GuestRow { actual_bytes: None, unusable, ..row };
        assert_eq!(cells(&row), ("-".into(), "it is parked".into()));
        assert_eq!(cpus(&row), None);
        let row = GuestRow { cpus_online: Some(1), cpus_present: Some(4), ..row };
        assert_eq!(cpus(&row).as_deref(), Some("1/4"));
    }

    #[test]
    fn rows_are_those_of_the_last_answer() {
        let row = |pid| GuestRow { pid, ..GuestRow::default() };
        let (sender, receiver) = channel();
        let mut managed = Managed { open: Some(receiver), ..Managed::default() };
        let fleet = Fleet::of(Vec::new(), 1);
        managed.refresh(&fleet, 0);
        assert!(managed.open.is_some() && managed.rows.is_empty(), "the answer is not there yet");
        sender.send(vec![row(Some(7)), row(None)]).unwrap();
        managed.refresh(&fleet, 1_000);
        assert_eq!(managed.rows.keys().collect::<Vec<_>>(), [&7]);
        assert!(managed.open.is_none(), "without managed guests nothing is asked");
        assert_eq!(managed.others(&fleet), 1, "a guest of another farm");
        assert!(managed.missing.is_empty());
        managed.asked = BTreeSet::from([7, 8]);
        managed.take(vec![row(Some(7))]);
        assert_eq!(managed.missing, BTreeSet::from([8]), "a manager at another socket has it");
        let (_, failed) = channel();
        managed.open = Some(failed);
        managed.refresh(&fleet, 2_000);
        assert!(managed.rows.is_empty(), "a manager that is gone has no rows");
    }
}
