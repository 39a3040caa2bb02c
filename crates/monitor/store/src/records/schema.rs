//! Tables of a recording, generated from the tables of fields.
//!
//! A file of rows covers a day, with a row for each minute, or a month, with a row for each quarter
//! of an hour. Both have the same tables, with a different prefix:
//!
//! | table | a row is |
//! |---|---|
//! | `file` | the start of the file, and the length of its spans |
//! | `guest`, `tier`, `process` | a name that rows point to by `key` |
//! | `minute_host`, `minute_guest`, `minute_tier`, `minute_process` | a span of one subject |
//! | `gap` | a time without records, and the reason; in a month's file only |
//!
//! A row's `id` is the number of its span in the file times `ROWS`, plus its place in the span. The
//! `id` determines the time, keeps rows in order, and needs no index. A field is a column with the
//! field's name. The column is added with the first value, so a field that no guest of the host has
//! takes no space. Readers treat an absent column as missing values.

use super::calendar::Period;
use crate::db::Kind;
use base::duration::MINUTE_MS;
use model::{Field, GuestField, HostField, ProcessField, TierField};
use rusqlite::Connection;
use std::sync::LazyLock;

/// Maximum number of rows of a span in one table, enough for a thousand guests with their top
/// hundred processes.
pub const ROWS: i64 = 100_000;
/// Length in milliseconds of a row in a month's file.
pub const QUARTER_MS: i64 = 15 * MINUTE_MS;

/// Grain of the rows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grain {
    /// One row per minute, one file per day.
    Minute,
    /// One row per 15 minutes, one file per month.
    Quarter,
}

impl Grain {
    /// Returns the grain of a period's file.
    pub fn of(period: Period) -> Grain {
        match period {
            Period::Day(..) => Grain::Minute,
            Period::Month(..) => Grain::Quarter,
        }
    }

    /// Returns the prefix of the names of the tables.
    pub fn prefix(self) -> &'static str {
        match self {
            Grain::Minute => "minute",
            Grain::Quarter => "quarter",
        }
    }

    /// Returns the length of a row's span.
    pub fn length_ms(self) -> i64 {
        match self {
            Grain::Minute => MINUTE_MS,
            Grain::Quarter => QUARTER_MS,
        }
    }

    /// Returns the period of the file for a span that starts at this time.
    pub fn period(self, at_ms: i64) -> Period {
        match self {
            Grain::Minute => Period::day_of(at_ms),
            Grain::Quarter => Period::month_of(at_ms),
        }
    }

    /// Returns the kind of files of this grain.
    pub fn kind(self) -> &'static Kind {
        match self {
            Grain::Minute => &MINUTES,
            Grain::Quarter => &QUARTERS,
        }
    }
}

/// A set of fields with a separate table.
pub trait Table: Field {
    /// The last part of the table's name.
    const NAME: &'static str;
    /// Column with the key of the row's owner. Rows of the host have no owner.
    const WHOSE: Option<&'static str>;

    /// Returns the table's name in files of this grain.
    fn table(grain: Grain) -> String {
        format!("{}_{}", grain.prefix(), Self::NAME)
    }
}

impl Table for HostField {
    const NAME: &'static str = "host";
    const WHOSE: Option<&'static str> = None;
}

impl Table for GuestField {
    const NAME: &'static str = "guest";
    const WHOSE: Option<&'static str> = Some("guest");
}

impl Table for TierField {
    const NAME: &'static str = "tier";
    const WHOSE: Option<&'static str> = Some("tier");
}

impl Table for ProcessField {
    const NAME: &'static str = "process";
    const WHOSE: Option<&'static str> = Some("process");
}

static MINUTES: LazyLock<Kind> = LazyLock::new(|| kind(Grain::Minute, 0x7069_6e6d));
static QUARTERS: LazyLock<Kind> = LazyLock::new(|| kind(Grain::Quarter, 0x7069_6e71));

/// The text of a kind is leaked, which is harmless because there are only two kinds.
fn kind(grain: Grain, application_id: i32) -> Kind {
    let text: &'static str = version_1(grain).leak();
    Kind { application_id, migrations: vec![text].leak() }
}

fn version_1(grain: Grain) -> String {
    let mut text = String::from(
        "CREATE TABLE file (base_ms INTEGER NOT NULL, length_ms INTEGER NOT NULL);
         CREATE TABLE guest (
             key INTEGER PRIMARY KEY,
             uuid TEXT NOT NULL,
             name TEXT NOT NULL,
             class TEXT NOT NULL,
             pid INTEGER,
             start_ticks INTEGER,
             boot TEXT NOT NULL
         );
         CREATE TABLE tier (key INTEGER PRIMARY KEY, name TEXT NOT NULL);
         CREATE TABLE process (
             key INTEGER PRIMARY KEY,
             guest INTEGER NOT NULL,
             name TEXT NOT NULL,
             pid INTEGER NOT NULL
         );",
    );
    if grain == Grain::Quarter {
        text.push_str(
            "CREATE TABLE gap (
                 from_ms INTEGER NOT NULL,
                 to_ms INTEGER NOT NULL,
                 reason TEXT NOT NULL,
                 UNIQUE (from_ms, to_ms)
             );",
        );
    }
    text.push_str(&create::<HostField>(grain));
    text.push_str(&create::<GuestField>(grain));
    text.push_str(&create::<TierField>(grain));
    text.push_str(&create::<ProcessField>(grain));
    text
}

fn create<F: Table>(grain: Grain) -> String {
    let whose = F::WHOSE.map(|whose| format!(", {whose} INTEGER NOT NULL")).unwrap_or_default();
    let table = F::table(grain);
    format!("CREATE TABLE {table} (id INTEGER PRIMARY KEY, covered_ms INTEGER{whose});\n")
}

/// Returns the columns of a table in a file.
pub fn column_names(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let statement = connection.prepare(&format!("SELECT * FROM {table}"))?;
    Ok(statement.column_names().map(str::to_owned).collect())
}

/// Returns the statement that inserts a row with `id`, `covered_ms`, the owner's key, and these
/// fields.
pub fn insert<F: Table>(grain: Grain, fields: impl Iterator<Item = F>) -> String {
    let mut columns = vec!["id", "covered_ms"];
    columns.extend(F::WHOSE);
    columns.extend(fields.map(Field::name));
    let places = vec!["?"; columns.len()].join(", ");
    format!("INSERT INTO {} ({}) VALUES ({places})", F::table(grain), columns.join(", "))
}

/// Kind of the files of raw samples.
pub const RAW: Kind = Kind { application_id: 0x7069_6e73, migrations: &[RAW_1] };

/// `raw` has one block per minute. `second` contains the part of the current minute that is not yet
/// in a block. `second` also contains the state before the minute (`is_base`), so that a later
/// process can continue the minute.
const RAW_1: &str = "
CREATE TABLE raw (
    at_ms INTEGER PRIMARY KEY,
    to_ms INTEGER NOT NULL,
    count INTEGER NOT NULL,
    bytes BLOB NOT NULL
);
CREATE TABLE second (
    number INTEGER PRIMARY KEY,
    is_base INTEGER NOT NULL,
    bytes BLOB NOT NULL
);
";
