//! The journal's tables, version by version.
//!
//! | table | a row is | notes |
//! |---|---|---|
//! | `guest` | one boot of one guest | `uuid`, `pid`, `start_ticks`, `boot` identify it |
//! | `decision` | one decision of a policy for a guest in a pass | `id` only grows |
//! | `outcome` | one outcome of a decision | removed with the decision |
//! | `event` | one other event | `guest` is NULL for an event of the host |
//!
//! Times are in milliseconds since 1970, and sizes in bytes. `bounds` has names between commas, and
//! `inputs` is a JSON object from names to numbers, with null for a missing value. `reason` has
//! words only for a clause that needs them ([`model::clause::Clause::has_detail`]). In rows from
//! before 0.1.0, `reason` is a whole sentence. The operator may query the tables with SQL, so
//! columns are only added.

use crate::db::Kind;

/// Kind of the journal's files.
pub const KIND: Kind = Kind { application_id: 0x7069_6e6a, migrations: &[VERSION_1] };

const VERSION_1: &str = "
CREATE TABLE guest (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid TEXT NOT NULL,
    name TEXT NOT NULL,
    class TEXT NOT NULL,
    pid INTEGER,
    start_ticks INTEGER,
    boot TEXT NOT NULL,
    first_ms INTEGER NOT NULL,
    last_ms INTEGER NOT NULL
);
CREATE INDEX guest_identity ON guest (uuid, pid, start_ticks, boot);

CREATE TABLE decision (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    guest INTEGER NOT NULL,
    policy TEXT NOT NULL,
    action TEXT NOT NULL,
    clause TEXT NOT NULL,
    reason TEXT NOT NULL,
    from_bytes INTEGER NOT NULL,
    to_bytes INTEGER NOT NULL,
    bounds TEXT NOT NULL,
    inputs TEXT NOT NULL,
    acted INTEGER NOT NULL
);
CREATE INDEX decision_guest ON decision (guest, policy, at_ms);
CREATE INDEX decision_time ON decision (at_ms);
CREATE INDEX decision_move ON decision (guest, policy, at_ms) WHERE from_bytes <> to_bytes;

CREATE TABLE outcome (
    decision INTEGER NOT NULL REFERENCES decision (id) ON DELETE CASCADE,
    at_ms INTEGER NOT NULL,
    result TEXT NOT NULL,
    reached_bytes INTEGER NOT NULL,
    host_got_bytes INTEGER
);
CREATE INDEX outcome_decision ON outcome (decision);

CREATE TABLE event (
    at_ms INTEGER NOT NULL,
    guest INTEGER,
    kind TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX event_time ON event (at_ms);
";
