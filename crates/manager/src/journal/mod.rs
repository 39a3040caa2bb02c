//! The journal's writer: events, decisions, and what came of them.

mod entries;

pub(crate) use entries::{decision, ended, outcome};

use crate::control::JournalRow;
use crate::effect::Now;
use hypervisor::Id;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{News, Ticket, Word, Writer};

/// How often what is too old is removed.
const PRUNE_MS: u64 = 60_000;

/// The journal, and the decisions whose outcome is still to come.
pub(crate) struct JournalWriter {
    writer: Writer,
    tickets: BTreeMap<Id, Ticket>,
    next_prune_ms: u64,
    /// Why nothing can be written at the moment.
    trouble: Option<String>,
}

impl JournalWriter {
    pub(crate) fn new(writer: Writer, now_ms: u64) -> JournalWriter {
        JournalWriter { writer, tickets: BTreeMap::new(), next_prune_ms: now_ms, trouble: None }
    }

    /// Keeps an event.
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

    /// Keeps a decision. One that moves a guest has an outcome later.
    pub(crate) fn decided(
        &mut self,
        guest: Id,
        who: &Arc<model::GuestIdentity>,
        row: store::Decision,
        moves: bool,
    ) {
        let ticket = self.writer.decision(who, row);
        if moves {
            self.tickets.insert(guest, ticket);
        }
    }

    /// Keeps what came of a guest's last move.
    pub(crate) fn outcome(&mut self, guest: Id, row: store::Outcome) {
        if let Some(ticket) = self.tickets.remove(&guest) {
            self.writer.outcome(ticket, row);
        }
    }

    /// Writes what waits. Returns a message about that, once.
    pub(crate) fn flush(&mut self) -> Option<String> {
        let news = self.writer.flush()?;
        match &news {
            News::Failed(error) => self.trouble = Some(error.to_string()),
            News::Recovered { .. } => self.trouble = None,
            News::SetAside { .. } => {}
        }
        Some(in_words(&news))
    }

    /// Removes some of what is too old or too much, from time to time.
    pub(crate) fn prune(&mut self, keep_ms: u64, max_bytes: u64, now: Now) -> Option<String> {
        if now.ms < self.next_prune_ms {
            return None;
        }
        let before_ms = now.wall_ms.saturating_sub(i64::try_from(keep_ms).unwrap_or(i64::MAX));
        let (has_more, trouble) = match self.writer.prune(before_ms, max_bytes) {
            Ok(pruned) => (pruned.more, None),
            Err(error) => {
                (false, Some(format!("The journal's old entries cannot be removed: {error}")))
            }
        };
        // What comes faster than it goes would outgrow any bound.
        self.next_prune_ms = now.ms + if has_more { 0 } else { PRUNE_MS };
        trouble
    }

    /// How it is, but for its place.
    pub(crate) fn row(&self) -> JournalRow {
        let waiting = self.writer.queued() as u64;
        let trouble = self.trouble.clone();
        JournalRow { path: None, waiting, lost: self.writer.lost(), trouble }
    }
}

fn in_words(news: &News) -> String {
    match news {
        News::Failed(error) => {
            format!("The journal cannot be written to; decisions go on without it: {error}")
        }
        News::SetAside { path, aside } => {
            format!("{} is damaged and was set aside as {}", path.display(), aside.display())
        }
        News::Recovered { lost: 0 } => "The journal can be written to again".into(),
        News::Recovered { lost } => {
            format!("The journal can be written to again; {lost} records were lost")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_that_cannot_be_written_to_has_the_reason_in_its_row() {
        let nowhere = Writer::new(std::path::Path::new("/dev/null/journal"));
        let mut journal = JournalWriter::new(nowhere, 0);
        assert_eq!(journal.row(), JournalRow::default());
        journal.note("start", "The manager starts".into(), None, Now { ms: 1, wall_ms: 1 });
        let message = journal.flush().expect("it fails");
        let row = journal.row();
        assert_eq!(row.waiting, 1);
        assert!(message.contains(&row.trouble.expect("a reason")), "{message}");
    }
}
