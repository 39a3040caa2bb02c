//! The table of policies: the same scenes under each policy, and a verdict on pinhead's policy.
//!
//! ```text
//!   ROWS ─► measure(policy) for each Kind ─► Row ─► verdict, a sentence ─► docs/policies.md
//! ```

mod scenes;

pub use scenes::{Idle, Served};

use crate::balloon::Fault;
use crate::figures;
use crate::policies::{self, Policy};
use policy::rivals::Kind;
use std::fmt::Write as _;

/// Maximum excess over the best value, in thousandths, at which a value still counts as close.
pub const WITHIN_PERMILLE: u64 = 100;

/// The format of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds, shown as seconds.
    Time,
    /// Thousandths, shown as percent.
    Part,
    /// KiB, shown as GiB.
    Size,
    /// A number.
    Count,
    /// Hundredths of a number.
    Hundredths,
}

impl Unit {
    pub(crate) fn show(self, value: Option<u64>) -> String {
        let Some(value) = value else { return "never".to_owned() };
        match self {
            Unit::Time => format!("{}.{} s", value / 1000, value % 1000 / 100),
            Unit::Part => format!("{}.{} %", value / 10, value % 10),
            Unit::Size => {
                let tenths = value * 10 / figures::GIB;
                format!("{}.{} GiB", tenths / 10, tenths % 10)
            }
            Unit::Count => value.to_string(),
            Unit::Hundredths => format!("{}.{:02}", value / 100, value % 100),
        }
    }

    /// Returns a difference that is too small to notice. For free memory of the host, this is half
    /// of the deviation that the arbiter tolerates.
    fn grain(self) -> u64 {
        match self {
            Unit::Time => 100,
            Unit::Part => 5,
            Unit::Size => figures::GIB / 10,
            Unit::Count | Unit::Hundredths => 0,
        }
    }
}

pub(crate) type Measure = fn(&mut dyn Policy) -> Option<u64>;

/// A scene, and the question that it answers about a policy.
#[derive(Clone, Copy)]
pub(crate) struct Question {
    name: &'static str,
    unit: Unit,
    /// Limit for our value.
    at_most: u64,
    /// Measurement. Less is better in all rows.
    measure: Measure,
}

pub(crate) const fn ask(
    name: &'static str,
    unit: Unit,
    at_most: u64,
    measure: Measure,
) -> Question {
    Question { name, unit, at_most, measure }
}

pub(crate) const HOARDER: Question = ask(
    "host at its target, hoarding guest beside starved guest: unmet need after 30 s",
    Unit::Part,
    200,
    |p| {
        let moved = figures::hoarder(p);
        Some(1000 - (moved.in_30_s_kib * 1000 / moved.need_kib.max(1)).min(1000))
    },
);
pub(crate) const SQUEEZE: Question =
    ask("host full for another reason: shrinks of a starved guest", Unit::Count, 0, |p| {
        Some(figures::squeeze(p).shrinks)
    });

const QUESTIONS: &[Question] = &[
    ask(
        "burst from 1 to 5 GiB, half of the host free: time until it is served",
        Unit::Time,
        5_000,
        |p| figures::burst(p),
    ),
    ask(
        "the same burst, on a host managed for two minutes before: time until it is served",
        Unit::Time,
        1_200,
        |p| figures::burst_on_managed_host(p),
    ),
    ask(
        "starved guest beside cold cache, host short: time until it is served",
        Unit::Time,
        5_000,
        |p| scenes::needy(p, Fault::None).after_ms,
    ),
    ask(
        "starved guest beside cold cache, host short: memory that the host swapped out",
        Unit::Size,
        0,
        |p| Some(scenes::needy(p, Fault::None).swapped_kib),
    ),
    ask(
        "starved guest beside cold cache, one of two balloons stuck: time until it is served",
        Unit::Time,
        5_000,
        |p| scenes::needy(p, Fault::Stuck).after_ms,
    ),
    HOARDER,
    SQUEEZE,
    ask("honest guest beside a lying guest: shrinks of the honest guest", Unit::Count, 0, |p| {
        Some(figures::liar_beside(p).shrinks)
    }),
    ask(
        "20 idle guests, a tenth of the host free: time until a fifth is free",
        Unit::Time,
        10_000,
        |p| scenes::idle(p).after_ms,
    ),
    ask(
        "20 idle guests: memory taken by balloons without gain for the host",
        Unit::Size,
        12 * figures::GIB,
        |p| Some(scenes::idle(p).in_vain_kib),
    ),
    ask(
        "16 guests with growing cache: distance of free memory from the target",
        Unit::Part,
        20,
        |p| Some(figures::caches(p).off_permille_max),
    ),
    ask(
        "16 guests with growing cache: time that tasks waited for memory in 20 minutes",
        Unit::Time,
        0,
        |p| Some(figures::caches(p).waited_ms),
    ),
    ask("steady load, host full: reversals per guest and hour", Unit::Hundredths, 100, |p| {
        Some(figures::reversals(p))
    }),
    ask(
        "steady load, host with room: time that tasks waited for memory in an hour",
        Unit::Time,
        0,
        |p| Some(scenes::calm(p)),
    ),
];

/// One row: a scene, and the result of each policy in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Scene and measured value.
    pub name: &'static str,
    /// Format of the values.
    pub unit: Unit,
    /// Limit for our value.
    pub at_most: u64,
    /// A value for each of [`Kind::ALL`], in that order; `None` means never.
    pub values: Vec<Option<u64>>,
}

/// The comparison of our policy with the best of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No other policy is better.
    Best,
    /// Another policy is better, by no more than [`WITHIN_PERMILLE`] or by an unnoticeable
    /// difference.
    Within,
    /// Another policy is better by a larger difference.
    Beaten,
}

/// Returns all rows.
pub fn rows() -> Vec<Row> {
    QUESTIONS.iter().map(|question| question.row(&policies::of)).collect()
}

impl Question {
    /// Measures a new instance of each policy in this scene.
    pub(crate) fn row(&self, make: &dyn Fn(Kind) -> Box<dyn Policy>) -> Row {
        Row {
            name: self.name,
            unit: self.unit,
            at_most: self.at_most,
            values: Kind::ALL.iter().map(|kind| (self.measure)(&mut *make(*kind))).collect(),
        }
    }
}

impl Row {
    /// Returns the value of pinhead's policy.
    pub fn ours(&self) -> Option<u64> {
        self.values.first().copied().flatten()
    }

    /// Returns the best value of the other policies, and the policies that reach this value.
    fn best_of_others(&self) -> (Option<u64>, Vec<Kind>) {
        let others = || Kind::ALL.iter().zip(&self.values).skip(1);
        let best = others().filter_map(|(_, value)| *value).min();
        let names = others().filter(|(_, value)| **value == best).map(|(kind, _)| *kind);
        (best, names.collect())
    }

    /// Returns the verdict on pinhead's policy.
    pub fn verdict(&self) -> Verdict {
        match (self.ours(), self.best_of_others().0) {
            (Some(ours), Some(best)) if ours > best => {
                let near = best + (best * WITHIN_PERMILLE / 1000).max(self.unit.grain());
                if ours <= near { Verdict::Within } else { Verdict::Beaten }
            }
            (None, Some(_)) => Verdict::Beaten,
            _ => Verdict::Best,
        }
    }

    /// Returns the verdict in a sentence.
    pub fn sentence(&self) -> String {
        let (best, whose) = self.best_of_others();
        let names: Vec<&str> = whose.iter().map(|kind| kind.name()).collect();
        let (names, best_text) = (names.join(", "), self.unit.show(best));
        match self.verdict() {
            Verdict::Best if self.ours() == best => format!("pinhead is as good as {names}."),
            Verdict::Best => format!("pinhead is the best; next is {names} with {best_text}."),
            Verdict::Within => format!("pinhead comes near the best: {names} with {best_text}."),
            Verdict::Beaten => format!("pinhead is not the best: {names} with {best_text}."),
        }
    }
}

/// Returns the table in Markdown: one row for each scene, with a sentence about the result.
pub fn markdown(rows: &[Row]) -> String {
    let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    let mut out =
        format!("| | {} | |\n|---|{}---|\n", names.join(" | "), "--:|".repeat(names.len()));
    for row in rows {
        let cells: Vec<String> = row.values.iter().map(|value| row.unit.show(*value)).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "| {} | {} | {} |", row.name, cells.join(" | "), row.sentence());
    }
    out
}
