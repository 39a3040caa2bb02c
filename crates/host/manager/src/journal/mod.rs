//! The journal's writer: events, decisions and their outcomes.

mod entries;

pub(crate) use entries::{decision, ended, outcome};

use crate::control::JournalRow;
use crate::effect::Now;
use hypervisor::Id;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use store::{Fate, News, Pruned, Ticket, Word, Writer};

/// Interval between removals of old entries.
const PRUNE_MS: u64 = 60_000;
/// Maximum speed of removal: milliseconds of journal entries per millisecond of the manager's
/// clock. If the wall clock is ahead for an hour, entries of about a day are lost. After a month
/// without a manager, all old entries are removed within 30 hours.
const AGES: i64 = 25;

/// The journal, and the decisions without an outcome so far.
pub(crate) struct JournalWriter {
    writer: Writer,
    tickets: BTreeMap<Id, Ticket>,
    /// Ended moves. The next move may be a further step of one of them.
    ended: BTreeMap<Id, Ticket>,
    next_prune_ms: u64,
    /// Time of the last removal by the manager's clock, and the wall time up to which entries were
    /// removed.
    gone: Option<(u64, i64)>,
    /// Reason why nothing can be written at the moment.
    trouble: Option<String>,
}

impl JournalWriter {
    pub(crate) fn new(writer: Writer, now_ms: u64) -> JournalWriter {
        let (tickets, ended) = (BTreeMap::new(), BTreeMap::new());
        let next_prune_ms = now_ms;
        JournalWriter { writer, tickets, ended, next_prune_ms, gone: None, trouble: None }
    }

    pub(crate) fn note(
        &mut self,
        kind: &'static str,
        text: String,
        guest: Option<&Arc<model::GuestIdentity>>,
        now: Now,
    ) {
        let event = store::Event { at_ms: now.wall_ms, kind: Word::Borrowed(kind), text };
        self.writer.event(guest, event);
    }

    /// Writes a decision. The outcome of a decision that moves memory follows later.
    pub(crate) fn decided(
        &mut self,
        guest: Id,
        who: &Arc<model::GuestIdentity>,
        row: store::Decision,
        moves: bool,
    ) {
        let ticket = self.writer.decision(who, row);
        if moves {
            self.ended.remove(&guest);
            self.tickets.insert(guest, ticket);
        }
    }

    /// Writes the outcome of a guest's last move.
    pub(crate) fn outcome(&mut self, guest: Id, row: store::Outcome) {
        if let Some(ticket) = self.tickets.remove(&guest) {
            self.writer.outcome(ticket, row);
            self.ended.insert(guest, ticket);
        }
        if row.fate == Fate::Gone {
            self.ended.remove(&guest);
        }
    }

    /// Continues a guest's last move, so that the outcome of the next step is written to the same
    /// entry.
    pub(crate) fn goes_on(&mut self, guest: Id) {
        if let Some(ticket) = self.ended.remove(&guest) {
            self.tickets.insert(guest, ticket);
        }
    }

    /// Writes waiting entries. Returns a message once if writing fails, or works again.
    pub(crate) fn flush(&mut self) -> Option<String> {
        let news = self.writer.flush()?;
        Some(self.heard(&news))
    }

    /// Writes all waiting entries, at the manager's end. Returns messages about failures.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let news = self.writer.finish();
        let mut messages: Vec<_> = news.iter().map(|news| self.heard(news)).collect();
        let left = self.writer.queued();
        if left > 0 {
            let why = self.trouble.unwrap_or_default();
            messages.push(format!(
                "The manager's last {left} entries were not written to the journal: {why}"
            ));
        }
        messages
    }

    fn heard(&mut self, news: &News) -> String {
        match news {
            News::Failed(error) => self.trouble = Some(base::chain(error)),
            News::Recovered { .. } => self.trouble = None,
            News::SetAside { .. } | News::Held { .. } => {}
        }
        in_words(news)
    }

    /// Removes some entries that are too old or beyond the size limit, unless the last removal was
    /// recent.
    pub(crate) fn prune(&mut self, keep_ms: u64, max_bytes: u64, now: Now) -> Option<String> {
        if now.ms < self.next_prune_ms {
            return None;
        }
        let pruned = self.old(keep_ms, now).and_then(|before_ms| match before_ms {
            Some(before_ms) => self.writer.prune(before_ms, max_bytes),
            None => Ok(Pruned::default()),
        });
        let (has_more, trouble) = match pruned {
            Ok(pruned) => (pruned.more, None),
            Err(error) => {
                (false, Some(format!("Old entries of the journal cannot be removed: {error}")))
            }
        };
        // More removals follow without a pause, because entries may arrive faster than they are
        // removed.
        self.next_prune_ms = now.ms + if has_more { 0 } else { PRUNE_MS };
        trouble
    }

    /// Returns the time up to which entries are too old, or `None` while the journal is not open.
    /// From the oldest entry on, the time follows the wall clock at a limited speed, so that a jump
    /// of the clock costs few entries.
    fn old(&mut self, keep_ms: u64, now: Now) -> Result<Option<i64>, store::Error> {
        let Some(journal) = self.writer.journal() else { return Ok(None) };
        let old_ms = now.wall_ms.saturating_sub(i64::try_from(keep_ms).unwrap_or(i64::MAX));
        let (then_ms, gone_ms) = match self.gone {
            Some(gone) => gone,
            None => (now.ms, journal.oldest_ms()?.map_or(old_ms, |oldest| oldest.min(old_ms))),
        };
        let passed_ms = i64::try_from(now.ms.saturating_sub(then_ms)).unwrap_or(i64::MAX);
        let before_ms = gone_ms.saturating_add(passed_ms.saturating_mul(AGES)).min(old_ms);
        // If the clock is set back, entries that were removed stay removed.
        self.gone = Some((now.ms, gone_ms.max(before_ms)));
        Ok(Some(before_ms))
    }

    /// Returns the status without the path.
    pub(crate) fn row(&self) -> JournalRow {
        let waiting = self.writer.queued() as u64;
        let trouble = self.trouble.clone();
        JournalRow { path: None, waiting, lost: self.writer.lost(), trouble }
    }
}

fn in_words(news: &News) -> String {
    match news {
        News::Failed(error) => {
            let why = base::chain(error);
            format!("The journal cannot be written to; decisions continue without it: {why}")
        }
        News::SetAside { path, aside } => {
            format!("{} is damaged and was renamed to {}", path.display(), aside.display())
        }
        News::Held { path, by } => held(path, by),
        News::Recovered { lost: 0 } => "The journal can be written to again".into(),
        News::Recovered { lost } => {
            format!("The journal can be written to again; {lost} records were lost")
        }
    }
}

/// Returns the message about a manager's file that another process had locked.
pub(crate) fn held(path: &Path, by: &str) -> String {
    let path = path.display();
    format!(
        "{path} was locked by {by}, so a copy has replaced the file. Only the owner may read the \
         copy. End the program that holds the lock, then let the group read the copy: chmod g+r \
         {path}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwritable_journal_has_the_reason_in_its_row() {
        let nowhere = Writer::new(std::path::Path::new("/dev/null/journal"));
        let mut journal = JournalWriter::new(nowhere, 0);
        assert_eq!(journal.row(), JournalRow::default());
        journal.note("start", "The manager starts".into(), None, Now { ms: 1, wall_ms: 1 });
        let message = journal.flush().expect("the write fails");
        let row = journal.row();
        assert_eq!(row.waiting, 1);
        let why = row.trouble.expect("a reason");
        assert!(message.contains(&why) && why.contains("Not a directory"), "{message}");
        let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let full = News::Failed(store::Error::File { path: "journal.db".into(), source });
        assert!(in_words(&full).ends_with(": no storage space"), "{}", in_words(&full));
    }

    #[test]
    fn outcomes_of_a_movements_steps_go_to_its_one_entry() {
        let writer = Writer::to(store::Journal::in_memory().expect("a journal"));
        let mut journal = JournalWriter::new(writer, 0);
        let (id, who) = (Id(1), Arc::new(model::GuestIdentity::default()));
        let row = store::Decision {
            at_ms: 1,
            policy: store::Policy::Active,
            action: Word::Borrowed("shrink"),
            clause: Word::Borrowed("request"),
            detail: String::new(),
            from_bytes: 8,
            to_bytes: 6,
            bounds: Vec::new(),
            inputs: Vec::new(),
            acted: true,
        };
        let came = |at_ms, got| store::Outcome {
            at_ms,
            fate: Fate::Reached,
            reached_bytes: 20 - got,
            host_got_bytes: Some(got),
        };
        journal.decided(id, &who, row, true);
        journal.outcome(id, came(2, 2));
        journal.outcome(id, came(3, 9));
        journal.goes_on(id);
        journal.outcome(id, came(4, 4));
        journal.outcome(id, store::Outcome { fate: Fate::Gone, ..came(5, 4) });
        journal.goes_on(id);
        journal.outcome(id, came(6, 5));
        assert_eq!(journal.flush(), None);
        let mut found = Vec::new();
        let kept = journal.writer.journal().expect("the journal is open");
        let range = store::Range { from_ms: 0, to_ms: 9 };
        let guests = kept.guests().expect("guests").iter().map(|row| row.key).collect();
        let read = kept.decisions(&store::Query { guests, range, policy: None }, |decided| {
            found.push(decided);
            std::ops::ControlFlow::Continue(())
        });
        read.expect("decisions");
        let came: Vec<_> =
            found[0].outcomes.iter().map(|one| (one.at_ms, one.host_got_bytes)).collect();
        assert_eq!((found.len(), came), (1, vec![(2, Some(2)), (4, Some(4))]));
    }

    const HOUR_MS: i64 = 3_600_000;
    const KEEP_MS: i64 = 30 * 24 * HOUR_MS;

    /// Returns a journal with an entry for each of `hours` hours, the last one at hour 0.
    fn hourly(hours: i64) -> JournalWriter {
        let writer = Writer::to(store::Journal::in_memory().expect("a journal"));
        let mut journal = JournalWriter::new(writer, 0);
        for hour in 1 - hours..=0 {
            let now = Now { ms: 0, wall_ms: KEEP_MS * 9 + hour * HOUR_MS };
            journal.note("start", "The manager starts".into(), None, now);
        }
        assert_eq!(journal.flush(), None);
        journal
    }

    /// Prunes once a minute for `minutes`, starting `at_hour` hours after the last entry. Returns
    /// the number of remaining entries.
    fn left(journal: &mut JournalWriter, minutes: u64, at_hour: i64) -> usize {
        for minute in 1..=minutes {
            let ms = journal.next_prune_ms.max(minute * PRUNE_MS);
            let wall_ms = KEEP_MS * 9 + at_hour * HOUR_MS + (minute * PRUNE_MS).cast_signed();
            let keep_ms = KEEP_MS.unsigned_abs();
            assert_eq!(journal.prune(keep_ms, u64::MAX, Now { ms, wall_ms }), None);
        }
        let ever = store::Range { from_ms: i64::MIN, to_ms: i64::MAX };
        let kept = journal.writer.journal().expect("the journal is open");
        kept.events(&[], ever, u32::MAX).expect("events").len()
    }

    #[test]
    fn finding2_15_clock_that_runs_ahead_costs_a_day_an_hour() {
        let mut journal = hourly(700);
        assert_eq!(left(&mut journal, 5, 0), 700);
        // The clock is ninety days ahead for an hour, and then correct again.
        let after = left(&mut journal, 65, 90 * 24);
        assert!((670..700).contains(&after), "{after}");
        assert_eq!(left(&mut journal, 5, 0), after);
    }

    #[test]
    fn finding2_15_journal_left_for_a_month_is_in_order_in_30_hours() {
        let mut journal = hourly(1_440);
        assert_eq!(left(&mut journal, 31 * 60, 0), 690);
    }
}
