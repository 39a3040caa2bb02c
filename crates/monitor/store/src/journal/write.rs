//! Insertion of rows into the journal, and pruning of old rows.

use super::inputs;
use super::types::{Decision, DecisionId, Event, GuestKey, Outcome, Policy, Pruned, Word};
use crate::bound::{BOUNDS_MAX, NAME_MAX, SENTENCE_MAX, cut, to_integer};
use crate::error::cannot;
use crate::{Error, Journal, db};
use model::GuestIdentity;
use rusqlite::{OptionalExtension, params};

/// Minimum interval, in milliseconds, between two writes of the time at which a guest was last
/// seen. A write with every decision would double the amount of data.
const LAST_SEEN_MS: i64 = 60_000;
/// Maximum number of guests cached as known. No machine runs so many guests at a time.
const KNOWN_MAX: usize = 4_096;
/// Maximum number of rows removed by one call, so that the manager is not delayed.
const PRUNE_ROWS: i64 = 2_000;

impl Journal {
    /// Returns the key of a guest. A new guest gets a new key.
    pub fn guest(&mut self, guest: &GuestIdentity, at_ms: i64) -> Result<GuestKey, Error> {
        if let Some((key, last_ms)) = self.known.get_mut(guest) {
            if at_ms.saturating_sub(*last_ms) >= LAST_SEEN_MS {
                let sql = "UPDATE guest SET last_ms = max(last_ms, ?2) WHERE key = ?1";
                let values = params![key.0, at_ms];
                db::execute(&self.connection, sql, values, "record when a guest was last seen")?;
                *last_ms = at_ms;
            }
            return Ok(*key);
        }
        let key = self.write_guest(guest, at_ms).map_err(cannot("record a guest"))?;
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(guest.clone(), (key, at_ms));
        Ok(key)
    }

    fn write_guest(&self, guest: &GuestIdentity, at_ms: i64) -> rusqlite::Result<GuestKey> {
        let [uuid, name, class, boot] =
            [&guest.uuid, &guest.name, &guest.class, &guest.boot].map(|text| cut(text, NAME_MAX));
        let start_ticks = guest.start_ticks.map(to_integer);
        let found: Option<i64> = self
            .connection
            .prepare_cached(
                "SELECT key FROM guest \
                 WHERE uuid = ?1 AND pid IS ?2 AND start_ticks IS ?3 AND boot = ?4",
            )?
            .query_row(params![uuid, guest.pid, start_ticks, boot], |row| row.get(0))
            .optional()?;
        // A running guest can be renamed, so its last name is kept.
        if let Some(key) = found {
            self.connection
                .prepare_cached(
                    "UPDATE guest SET name = ?2, class = ?3, last_ms = max(last_ms, ?4) \
                     WHERE key = ?1",
                )?
                .execute(params![key, name, class, at_ms])?;
            return Ok(GuestKey(key));
        }
        self.connection
            .prepare_cached(
                "INSERT INTO guest (uuid, name, class, pid, start_ticks, boot, first_ms, last_ms) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)",
            )?
            .execute(params![uuid, name, class, guest.pid, start_ticks, boot, at_ms])?;
        Ok(GuestKey(self.connection.last_insert_rowid()))
    }

    pub fn decision(&mut self, guest: GuestKey, decision: &Decision) -> Result<DecisionId, Error> {
        let sql = "INSERT INTO decision (at_ms, guest, policy, action, clause, reason, \
                   from_bytes, to_bytes, bounds, inputs, acted) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        let values = params![
            decision.at_ms,
            guest.0,
            decision.policy.name(),
            cut(&decision.action, NAME_MAX),
            cut(&decision.clause, NAME_MAX),
            cut(&decision.detail, SENTENCE_MAX),
            to_integer(decision.from_bytes),
            to_integer(decision.to_bytes),
            bounds(&decision.bounds),
            inputs::encode(&decision.inputs),
            // A shadow policy never acts, whatever the decision contains.
            decision.acted && decision.policy == Policy::Active,
        ];
        db::execute(&self.connection, sql, values, "add a decision")?;
        Ok(DecisionId(self.connection.last_insert_rowid()))
    }

    /// Adds the outcome of a decision, unless the decision has already been pruned.
    pub fn outcome(&mut self, decision: DecisionId, outcome: &Outcome) -> Result<(), Error> {
        let sql = "INSERT INTO outcome (decision, at_ms, result, reached_bytes, host_got_bytes) \
                   SELECT ?1, ?2, ?3, ?4, ?5 \
                   WHERE EXISTS (SELECT 1 FROM decision WHERE id = ?1)";
        let values = params![
            decision.0,
            outcome.at_ms,
            outcome.fate.name(),
            to_integer(outcome.reached_bytes),
            outcome.host_got_bytes.map(to_integer),
        ];
        db::execute(&self.connection, sql, values, "add an outcome")
    }

    /// Adds an event about a guest, or about the manager and its host.
    pub fn event(&mut self, guest: Option<GuestKey>, event: &Event) -> Result<(), Error> {
        let sql = "INSERT INTO event (at_ms, guest, kind, text) VALUES (?1, ?2, ?3, ?4)";
        let (kind, text) = (cut(&event.kind, NAME_MAX), cut(&event.text, SENTENCE_MAX));
        let values = params![event.at_ms, guest.map(|key| key.0), kind, text];
        db::execute(&self.connection, sql, values, "add an event")
    }

    /// Returns the time of the oldest decision or event, or `None` if there are none.
    pub fn oldest_ms(&self) -> Result<Option<i64>, Error> {
        let sql = "SELECT min(at_ms) FROM (SELECT min(at_ms) AS at_ms FROM decision UNION ALL \
                   SELECT min(at_ms) FROM event)";
        self.connection.query_row(sql, [], |row| row.get(0)).map_err(cannot("find the oldest row"))
    }

    /// Removes rows older than a time, oldest first and a bounded number per call.
    pub fn prune(&mut self, before_ms: i64) -> Result<Pruned, Error> {
        // Guests may be removed too, so their cached keys are dropped.
        self.known.clear();
        let rows = self.remove(before_ms).map_err(cannot("remove old rows"))?;
        let given_back = db::give_back(&self.connection);
        given_back.map_err(cannot("return unused pages to the file system"))?;
        let most = PRUNE_ROWS as u64;
        Ok(Pruned { rows: rows.0 + rows.1, more: rows.0 == most || rows.1 == most })
    }

    /// Removes the oldest rows while the file is larger than `most_bytes`. Each call removes a
    /// bounded number of rows.
    pub fn prune_to_size(&mut self, most_bytes: u64) -> Result<Pruned, Error> {
        if self.bytes()? <= most_bytes {
            return Ok(Pruned::default());
        }
        // The oldest rows of both kinds are removed together. Otherwise many events could displace
        // all decisions, or many decisions all events.
        let sql = "SELECT max(at_ms) FROM (SELECT at_ms FROM ( \
                   SELECT * FROM (SELECT at_ms FROM decision ORDER BY at_ms LIMIT ?1) UNION ALL \
                   SELECT * FROM (SELECT at_ms FROM event ORDER BY at_ms LIMIT ?1) \
                   ) ORDER BY at_ms LIMIT ?1)";
        let cut = self
            .connection
            .query_row(sql, [PRUNE_ROWS], |row| row.get::<_, Option<i64>>(0))
            .map_err(cannot("find the oldest rows"))?;
        let Some(cut) = cut else { return Ok(Pruned::default()) };
        let pruned = self.prune(cut.saturating_add(1))?;
        Ok(Pruned { more: pruned.rows > 0 && self.bytes()? > most_bytes, ..pruned })
    }

    /// Returns the size of the file without free pages.
    pub fn bytes(&self) -> Result<u64, Error> {
        let size = db::Size::of(&self.connection).map_err(cannot("determine the size of its data"));
        Ok(size?.used_bytes())
    }

    fn remove(&mut self, before_ms: i64) -> rusqlite::Result<(u64, u64)> {
        let transaction = self.connection.transaction()?;
        let decisions = transaction.execute(
            "DELETE FROM decision WHERE id IN \
             (SELECT id FROM decision WHERE at_ms < ?1 ORDER BY at_ms LIMIT ?2)",
            [before_ms, PRUNE_ROWS],
        )?;
        let events = transaction.execute(
            "DELETE FROM event WHERE rowid IN \
             (SELECT rowid FROM event WHERE at_ms < ?1 ORDER BY at_ms LIMIT ?2)",
            [before_ms, PRUNE_ROWS],
        )?;
        // The recorded time at which a guest was last seen may lag by a minute.
        transaction.execute(
            "DELETE FROM guest WHERE last_ms < ?1 \
             AND NOT EXISTS (SELECT 1 FROM decision WHERE guest = key) \
             AND key NOT IN (SELECT guest FROM event WHERE guest IS NOT NULL)",
            [before_ms.saturating_sub(LAST_SEEN_MS)],
        )?;
        transaction.commit()?;
        Ok((decisions as u64, events as u64))
    }
}

/// Joins names with commas. A comma in a name is replaced, because it would split the name.
fn bounds(names: &[Word]) -> String {
    let names = names.iter().take(BOUNDS_MAX);
    let names: Vec<String> = names.map(|name| cut(name, NAME_MAX).replace(',', "_")).collect();
    names.join(",")
}
