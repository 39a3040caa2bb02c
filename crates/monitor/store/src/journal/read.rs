//! Queries of the journal.

use super::inputs;
use super::types::{
    Decided, Decision, DecisionId, Event, Found, GuestKey, GuestRow, Outcome, Policy, Query, Range,
    Word,
};
use crate::bound::{
    BOUNDS_TEXT_MAX, INPUTS_TEXT_MAX, NAME_MAX, Order, SENTENCE_MAX, in_order, text,
};
use crate::error::cannot;
use crate::{Error, Journal};
use model::clause::Clause;
use model::{Fate, GuestIdentity};
use rusqlite::types::ValueRef;
use rusqlite::{Row, params};
use std::cmp::Reverse;
use std::ops::ControlFlow;

/// Maximum number of guests in one query. Each guest adds a number to the statement's text.
const GUESTS_MAX: usize = 10_000;

const DECISION: &str = "SELECT id, guest, at_ms, policy, action, clause, reason, from_bytes, \
                        to_bytes, bounds, inputs, acted FROM decision";

impl Journal {
    /// Returns all guests, in the order of their first records.
    pub fn guests(&self) -> Result<Vec<GuestRow>, Error> {
        let sql = "SELECT key, uuid, name, class, pid, start_ticks, boot, first_ms, last_ms \
                   FROM guest ORDER BY key";
        in_order(&self.connection, ("guest", "list its guests"), sql, [], |row| {
            let guest = guest_row(row)?;
            Ok((guest.key, guest.key.0, guest))
        })
    }

    /// Passes the matching decisions to `visit` one by one, oldest first, until `visit` breaks off.
    /// The decisions of a day may not fit into memory.
    pub fn decisions(
        &self,
        query: &Query,
        mut visit: impl FnMut(Decided) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let failed = cannot("read decisions");
        let sql = format!(
            "{DECISION} WHERE guest IN ({}) AND policy IN ({}) AND at_ms BETWEEN ?1 AND ?2 \
             ORDER BY at_ms, id",
            list(&query.guests)?,
            policies(query.policy)
        );
        let mut statement = self.connection.prepare(&sql).map_err(&failed)?;
        let Range { from_ms, to_ms } = query.range;
        let mut rows = statement.query([from_ms, to_ms]).map_err(&failed)?;
        let mut order = Order::of("decision");
        while let Some(row) = rows.next().map_err(&failed)? {
            let decided = self.decided(row)?;
            order.next((decided.decision.at_ms, decided.id), decided.id.0)?;
            if visit(decided).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the decision in force at a time: the last decision for any of these guests at or
    /// before the time.
    pub fn in_force(
        &self,
        guests: &[GuestKey],
        policy: Policy,
        at_ms: i64,
    ) -> Result<Option<Decided>, Error> {
        self.last(guests, policy, at_ms, "")
    }

    /// Returns the last decision at or before a time that changed the size of any of these guests.
    pub fn last_move(
        &self,
        guests: &[GuestKey],
        policy: Policy,
        at_ms: i64,
    ) -> Result<Option<Decided>, Error> {
        self.last(guests, policy, at_ms, " AND from_bytes <> to_bytes")
    }

    /// Queries one guest at a time, because the index then leads straight to the row.
    fn last(
        &self,
        guests: &[GuestKey],
        policy: Policy,
        at_ms: i64,
        only: &str,
    ) -> Result<Option<Decided>, Error> {
        let failed = cannot("find a decision");
        let sql = format!(
            "{DECISION} WHERE guest = ?1 AND policy = ?2 AND at_ms <= ?3{only} \
             ORDER BY at_ms DESC, id DESC LIMIT 1"
        );
        let mut statement = self.connection.prepare(&sql).map_err(&failed)?;
        let mut found: Option<Decided> = None;
        for guest in guests {
            let mut rows =
                statement.query(params![guest.0, policy.name(), at_ms]).map_err(&failed)?;
            let Some(row) = rows.next().map_err(&failed)? else { continue };
            let decided = self.decided(row)?;
            let order = |decided: &Decided| (decided.decision.at_ms, decided.id);
            if found.as_ref().is_none_or(|found| order(found) < order(&decided)) {
                found = Some(decided);
            }
        }
        Ok(found)
    }

    /// Returns the times of the first and the last of these guests' decisions.
    pub fn span(
        &self,
        guests: &[GuestKey],
        policy: Option<Policy>,
    ) -> Result<Option<Range>, Error> {
        let failed = cannot("find the first and last decision");
        let end = |which: &str| {
            format!(
                "SELECT {which}(at_ms) FROM decision WHERE guest = ?1 AND policy IN ({})",
                policies(policy)
            )
        };
        let mut first = self.connection.prepare(&end("min")).map_err(&failed)?;
        let mut last = self.connection.prepare(&end("max")).map_err(&failed)?;
        let mut span: Option<Range> = None;
        for guest in guests {
            let from: Option<i64> =
                first.query_row([guest.0], |row| row.get(0)).map_err(&failed)?;
            let to: Option<i64> = last.query_row([guest.0], |row| row.get(0)).map_err(&failed)?;
            let (Some(from), Some(to)) = (from, to) else { continue };
            let known = span.unwrap_or(Range { from_ms: from, to_ms: to });
            span = Some(Range { from_ms: known.from_ms.min(from), to_ms: known.to_ms.max(to) });
        }
        Ok(span)
    }

    /// Returns the latest `most` events in a range about these guests or about the manager, oldest
    /// first.
    pub fn events(
        &self,
        guests: &[GuestKey],
        range: Range,
        most: u32,
    ) -> Result<Vec<Found>, Error> {
        let sql = format!(
            "SELECT at_ms, guest, kind, text, rowid FROM event \
             WHERE at_ms BETWEEN ?1 AND ?2 AND (guest IS NULL OR guest IN ({})) \
             ORDER BY at_ms DESC, rowid DESC LIMIT ?3",
            list(guests)?
        );
        let values = params![range.from_ms, range.to_ms, most];
        let mut found =
            in_order(&self.connection, ("event", "read events"), &sql, values, |row| {
                let (event, id) = (event(row)?, row.get(4)?);
                Ok((Reverse((event.event.at_ms, id)), id, event))
            })?;
        found.reverse();
        Ok(found)
    }

    fn decided(&self, row: &Row<'_>) -> Result<Decided, Error> {
        let failed = cannot("read a decision");
        let id: i64 = row.get(0).map_err(&failed)?;
        let wrong = |reason| Error::Row { table: "decision", id, reason };
        let policy = text(row, 3, NAME_MAX).map_err(&failed)?;
        let policy = Policy::from_name(&policy)
            .ok_or_else(|| wrong(format!("its policy must be active or shadow, not {policy:?}")))?;
        let bounds = text(row, 9, BOUNDS_TEXT_MAX).map_err(&failed)?;
        // The limit is one byte more, so that a text that is too long is recognised.
        let inputs = text(row, 10, INPUTS_TEXT_MAX + 1).map_err(&failed)?;
        let inputs = inputs::decode(&inputs).map_err(wrong)?;
        let acted = row.get(11).map_err(&failed)?;
        let read = || -> rusqlite::Result<Decision> {
            let clause = text(row, 5, NAME_MAX)?;
            let detail = match Clause::of_name(&clause) {
                // Rows from before 0.1.0 contain a whole sentence. Later rows do not, because the
                // clause and the inputs give the sentence.
                Some(clause) if !clause.has_detail() => String::new(),
                Some(_) | None => text(row, 6, SENTENCE_MAX)?,
            };
            Ok(Decision {
                at_ms: row.get(2)?,
                policy,
                action: Word::Owned(text(row, 4, NAME_MAX)?),
                clause: Word::Owned(clause),
                detail,
                from_bytes: size(row, 7)?,
                to_bytes: size(row, 8)?,
                bounds: words(&bounds),
                inputs,
                acted,
            })
        };
        let decision = read().map_err(&failed)?;
        let outcomes = if acted { self.outcomes(id)? } else { Vec::new() };
        let guest = GuestKey(row.get(1).map_err(&failed)?);
        Ok(Decided { id: DecisionId(id), guest, decision, outcomes })
    }

    fn outcomes(&self, id: i64) -> Result<Vec<Outcome>, Error> {
        let failed = cannot("read outcomes");
        let sql = "SELECT at_ms, result, reached_bytes, host_got_bytes, rowid FROM outcome \
                   WHERE decision = ?1 ORDER BY at_ms, rowid";
        let mut statement = self.connection.prepare_cached(sql).map_err(&failed)?;
        let mut rows = statement.query([id]).map_err(&failed)?;
        let mut order = Order::of("outcome");
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(&failed)? {
            let fate = text(row, 1, NAME_MAX).map_err(&failed)?;
            let found_fate = match fate.as_str() {
                // The first journals had a separate word for a move that stopped halfway.
                "partly" => Some(Fate::Stuck),
                name => Fate::from_name(name),
            };
            let fate = found_fate.ok_or_else(|| Error::Row {
                table: "outcome",
                id,
                reason: format!("{fate:?} is not a result of a decision, such as reached or stuck"),
            })?;
            let read = || -> rusqlite::Result<Outcome> {
                let (at_ms, reached_bytes) = (row.get(0)?, size(row, 2)?);
                Ok(Outcome { at_ms, fate, reached_bytes, host_got_bytes: size_if_any(row, 3)? })
            };
            let outcome = read().map_err(&failed)?;
            let row_id: i64 = row.get(4).map_err(&failed)?;
            order.next((outcome.at_ms, row_id), row_id)?;
            found.push(outcome);
        }
        Ok(found)
    }
}

fn guest_row(row: &Row<'_>) -> rusqlite::Result<GuestRow> {
    let guest = GuestIdentity {
        uuid: text(row, 1, NAME_MAX)?,
        name: text(row, 2, NAME_MAX)?,
        class: text(row, 3, NAME_MAX)?,
        pid: row.get(4)?,
        start_ticks: size_if_any(row, 5)?,
        boot: text(row, 6, NAME_MAX)?,
    };
    let (first_ms, last_ms) = (row.get(7)?, row.get(8)?);
    Ok(GuestRow { key: GuestKey(row.get(0)?), guest, first_ms, last_ms })
}

fn event(row: &Row<'_>) -> rusqlite::Result<Found> {
    let event = Event {
        at_ms: row.get(0)?,
        kind: Word::Owned(text(row, 2, NAME_MAX)?),
        text: text(row, 3, SENTENCE_MAX)?,
    };
    Ok(Found { event, guest: row.get::<_, Option<i64>>(1)?.map(GuestKey) })
}

/// Returns the names of the selected policies, for `IN ()`.
fn policies(policy: Option<Policy>) -> &'static str {
    match policy {
        Some(Policy::Active) => "'active'",
        Some(Policy::Shadow) => "'shadow'",
        None => "'active', 'shadow'",
    }
}

/// Reads a size or a count, which is never negative.
fn size(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

fn size_if_any(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => size(row, column).map(Some),
    }
}

fn words(text: &str) -> Vec<Word> {
    let words = text.split(',').filter(|word| !word.is_empty());
    words.map(|word| Word::Owned(word.to_owned())).collect()
}

/// Returns the guests' keys for `IN ()`. The keys are numbers, so they cannot inject other SQL into
/// the statement.
fn list(guests: &[GuestKey]) -> Result<String, Error> {
    if guests.len() > GUESTS_MAX {
        return Err(Error::TooManyGuests { asked: guests.len(), most: GUESTS_MAX });
    }
    let numbers: Vec<String> = guests.iter().map(|key| key.0.to_string()).collect();
    Ok(numbers.join(","))
}
