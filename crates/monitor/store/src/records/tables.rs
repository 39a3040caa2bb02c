//! Documented tables, as `pinhead schema` prints and `pinhead sql` queries them.

use super::schema::{Grain, Table};
use model::{GuestField, HostField, Kind, ProcessField, TierField, Unit};

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// `counter` for growth, `gauge` for a mean, or one of `text`, `time` and `number`.
    pub kind: &'static str,
    /// Source of the values.
    pub source: &'static str,
    /// Description.
    pub words: &'static str,
}

/// A table for queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableText {
    pub name: String,
    /// Meaning of a row.
    pub words: &'static str,
    pub columns: Vec<Column>,
}

const AT: Column = plain("at_ms", "ms", "time", "start of the span, since 1970");
const COVERED: Column = plain("covered_ms", "ms", "number", "known part of the span");

/// Columns that identify a guest.
pub const WHO: [Column; 6] = [
    plain("guest", "", "text", "the guest's name"),
    plain("uuid", "", "text", "UUID of the guest"),
    plain("class", "", "text", "class of the guest, from its name or from `pinhead up`"),
    plain("guest_pid", "", "number", "PID of the guest's process on the host"),
    plain("start_ticks", "ticks", "number", "start of that process, since the host's boot"),
    plain("boot", "", "text", "identifier of one boot of the guest"),
];

const fn plain(
    name: &'static str,
    unit: &'static str,
    kind: &'static str,
    words: &'static str,
) -> Column {
    Column { name, unit, kind, source: "", words }
}

/// Returns all tables with their columns in order.
pub fn tables() -> Vec<TableText> {
    let mut all = Vec::new();
    for grain in [Grain::Minute, Grain::Quarter] {
        let is_minute = grain == Grain::Minute;
        let words = |minute, quarter| if is_minute { minute } else { quarter };
        all.push(table::<HostField>(
            grain,
            words("the host in a minute", "the host in 15 minutes"),
            &[],
        ));
        all.push(table::<GuestField>(
            grain,
            words("a guest in a minute", "a guest in 15 minutes"),
            &WHO,
        ));
        all.push(table::<TierField>(
            grain,
            words("a tier of memory in a minute", "a tier of memory in 15 minutes"),
            &[plain("tier", "", "text", "name of the tier, such as /dev/zram0")],
        ));
        let mut whose = WHO.to_vec();
        whose.push(plain("name", "", "text", "name of the process"));
        whose.push(plain("pid", "", "number", "PID in the guest; 0 for all processes of a name"));
        all.push(table::<ProcessField>(
            grain,
            words(
                "a process that was active in a minute",
                "a process that was active in 15 minutes",
            ),
            &whose,
        ));
    }
    all.push(TableText {
        name: "gap".into(),
        words: "a time without data",
        columns: vec![
            plain("from_ms", "ms", "time", "start of the gap, since 1970"),
            plain("to_ms", "ms", "time", "end of the gap, since 1970"),
            plain("reason", "", "text", "reason of the gap: restart, late or lost"),
        ],
    });
    all.push(TableText {
        name: "raw".into(),
        words: "a block of samples of one second; `pinhead top --replay` shows the samples",
        columns: vec![
            plain("at_ms", "ms", "time", "time of the first sample, since 1970"),
            plain("to_ms", "ms", "time", "time of the last sample, since 1970"),
            plain("count", "", "number", "number of samples"),
            plain("bytes", "", "blob", "the samples, packed"),
        ],
    });
    all
}

fn table<F: Table>(grain: Grain, words: &'static str, whose: &[Column]) -> TableText {
    let mut columns = vec![AT];
    columns.extend(whose);
    columns.push(COVERED);
    columns.extend(F::ALL.iter().map(|field| Column {
        name: field.name(),
        unit: unit(field.unit()),
        kind: match field.kind() {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        },
        source: field.source(),
        words: field.doc(),
    }));
    TableText { name: F::table(grain), words, columns }
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "bytes",
        Unit::Nanoseconds => "ns",
        Unit::Pages => "pages",
        Unit::Ticks => "ticks",
        Unit::Count => "",
        Unit::Permille => "permille",
    }
}
