//! The results of a load: for all targets, each class, each target, and each second.

use crate::load::schedule::micros;
use crate::load::tally::{HUNDREDTH, THOUSANDTH};
use crate::load::{Error, Failure, Latency, Pattern, Plan, Tally};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Counts of a class or of a target.
#[derive(Clone, Debug)]
pub struct Row {
    /// The class, or the target's name.
    pub name: String,
    /// The requests.
    pub tally: Tally,
}

/// The results of a load.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// All requests.
    pub all: Tally,
    /// Requests of each class, in the order of the targets.
    pub classes: Vec<Row>,
    /// Requests of each target.
    pub targets: Vec<Row>,
    /// Responses in each second since the start.
    pub seconds: Vec<u32>,
    /// Time from the start to the end of the load, in microseconds.
    pub elapsed_us: u64,
    /// True if the watcher ended the load early.
    pub is_interrupted: bool,
    /// Index of each target's class in `classes`.
    class_of: Vec<usize>,
    interval_us: Option<u64>,
}

impl Outcome {
    pub(crate) fn new(plan: &Plan) -> Result<Outcome, Error> {
        let interval_us = match plan.pattern {
            Pattern::Closed { expected_interval, .. } => expected_interval.map(micros),
            // Latencies that count from the intended time need no correction.
            Pattern::Open { .. } | Pattern::Random { .. } | Pattern::Once { .. } => None,
        };
        let corrects = interval_us.is_some();
        let mut classes: Vec<Row> = Vec::new();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        let mut class_of = Vec::with_capacity(plan.targets.len());
        let mut targets = Vec::with_capacity(plan.targets.len());
        for target in &plan.targets {
            let place = *places.entry(&target.class).or_insert(classes.len());
            if place == classes.len() {
                let tally = Tally::new(THOUSANDTH, corrects)?;
                classes.push(Row { name: target.class.clone(), tally });
            }
            class_of.push(place);
            // There may be thousands of tallies. With this precision a tally takes only a few
            // kilobytes.
            let tally = Tally::new(HUNDREDTH, false)?;
            targets.push(Row { name: target.name.clone(), tally });
        }
        Ok(Outcome {
            all: Tally::new(THOUSANDTH, corrects)?,
            classes,
            targets,
            class_of,
            seconds: Vec::new(),
            interval_us,
            elapsed_us: 0,
            is_interrupted: false,
        })
    }

    pub(crate) fn answer(&mut self, target: usize, latency_us: u64, bytes: u64, now_us: u64) {
        let interval_us = self.interval_us;
        self.tallies(target, |tally| tally.answer(latency_us, bytes, interval_us));
        let second = usize::try_from(now_us / 1_000_000).unwrap_or(usize::MAX);
        // The list stays short, because a load lasts at most a day plus its last timeout.
        if second >= self.seconds.len() {
            self.seconds.resize(second.saturating_add(1), 0);
        }
        self.seconds[second] = self.seconds[second].saturating_add(1);
    }

    pub(crate) fn failure(&mut self, target: usize, failure: Failure, waited_us: u64) {
        let interval_us = self.interval_us;
        self.tallies(target, |tally| tally.failure(failure, waited_us, interval_us));
    }

    fn tallies(&mut self, target: usize, mut change: impl FnMut(&mut Tally)) {
        change(&mut self.all);
        change(&mut self.classes[self.class_of[target]].tally);
        change(&mut self.targets[target].tally);
    }

    /// Returns the responses per second; `None` if no time has passed.
    pub fn requests_per_s(&self, tally: &Tally) -> Option<f64> {
        let seconds = self.elapsed_us as f64 / 1e6;
        (seconds > 0.0).then(|| tally.answered as f64 / seconds)
    }

    /// Returns the results as JSON.
    pub fn to_json(&self) -> Value {
        let rows = |rows: &[Row]| -> Vec<Value> {
            let row = |row: &Row| {
                let mut fields = self.fields(&row.tally);
                fields.insert("name".to_owned(), json!(row.name));
                Value::Object(fields)
            };
            rows.iter().map(row).collect()
        };
        let mut all = self.fields(&self.all);
        all.insert("seconds".to_owned(), json!(self.elapsed_us as f64 / 1e6));
        all.insert("interrupted".to_owned(), json!(self.is_interrupted));
        all.insert("answers_by_second".to_owned(), json!(self.seconds));
        all.insert("classes".to_owned(), json!(rows(&self.classes)));
        all.insert("targets".to_owned(), json!(rows(&self.targets)));
        Value::Object(all)
    }

    fn fields(&self, tally: &Tally) -> Map<String, Value> {
        let failed = |failure: &Failure| {
            let count = tally.failed(*failure);
            (count > 0).then(|| (failure.name().to_owned(), json!(count)))
        };
        let failures: Map<String, Value> = Failure::ALL.iter().filter_map(failed).collect();
        let mut fields = Map::from_iter([
            ("answered".to_owned(), json!(tally.answered)),
            ("failed".to_owned(), json!(tally.failed_all())),
            ("failures".to_owned(), Value::Object(failures)),
            ("bytes".to_owned(), json!(tally.bytes)),
            ("requests_per_s".to_owned(), json!(self.requests_per_s(tally))),
            ("latency_us".to_owned(), json!(tally.latency_us().map(latency_json))),
        ]);
        if tally.is_corrected() {
            let corrected = tally.corrected_us().map(latency_json);
            fields.insert("corrected_us".to_owned(), json!(corrected));
        }
        fields
    }

    /// Returns the results as text: of all targets together, of each class if there are several,
    /// and of the slowest targets.
    pub fn to_text(&self) -> String {
        /// Maximum number of rows for targets. The JSON contains all targets.
        const TARGETS_SHOWN: usize = 20;
        let classes: Vec<&Row> = self.classes.iter().filter(|_| self.classes.len() > 1).collect();
        let mut targets: Vec<&Row> =
            self.targets.iter().filter(|_| self.targets.len() > 1).collect();
        targets.sort_by_key(|row| {
            let max_us = row.tally.latency_us().map(|latency| latency.max_us);
            std::cmp::Reverse((row.tally.failed_all(), max_us))
        });
        let hidden = targets.len().saturating_sub(TARGETS_SHOWN);
        targets.truncate(TARGETS_SHOWN);
        let named = classes.iter().chain(&targets).map(|row| base::columns(&row.name));
        let width = named.max().unwrap_or(0).max("CLASS".len());
        let mut text = format!(
            "{:width$} {:>9} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
            "", "ANSWERED", "FAILED", "PER SEC", "AVG MS", "P50 MS", "P90 MS", "P99 MS", "MAX MS"
        );
        self.line(&mut text, "all", &self.all, width);
        if let Some(latency) = self.all.corrected_us() {
            let columns = latency_columns(Some(latency));
            let blank = width + 28;
            let _ = writeln!(text, "{:blank$}{columns}  including the delayed requests", "");
        }
        for (title, rows) in [("CLASS", classes), ("TARGET", targets)] {
            if !rows.is_empty() {
                let _ = writeln!(text, "{title}");
            }
            for row in rows {
                self.line(&mut text, &row.name, &row.tally, width);
            }
        }
        if hidden > 0 {
            let _ = writeln!(text, "and {hidden} more targets, none of them slower");
        }
        self.end_of_text(&mut text);
        text
    }

    fn line(&self, text: &mut String, name: &str, tally: &Tally, width: usize) {
        let name = base::padded(name, width);
        let rate = self.requests_per_s(tally).map_or("-".to_owned(), |rate| format!("{rate:.1}"));
        let (answered, failed) = (tally.answered, tally.failed_all());
        let columns = latency_columns(tally.latency_us());
        let _ = writeln!(text, "{name} {answered:>9} {failed:>7} {rate:>9}{columns}");
    }

    fn end_of_text(&self, text: &mut String) {
        let failed = Failure::ALL.iter().filter(|failure| self.all.failed(**failure) > 0);
        let failed: Vec<String> =
            failed.map(|kind| format!("{} {}", self.all.failed(*kind), kind.name())).collect();
        if !failed.is_empty() {
            let _ = writeln!(text, "failed: {}", failed.join(", "));
        }
        let ended = if self.is_interrupted { ", interrupted" } else { "" };
        let _ = writeln!(text, "{:.1} s{ended}", self.elapsed_us as f64 / 1e6);
    }
}

fn latency_json(latency: Latency) -> Value {
    json!({
        "average": latency.average_us,
        "p50": latency.p50_us,
        "p90": latency.p90_us,
        "p95": latency.p95_us,
        "p99": latency.p99_us,
        "max": latency.max_us,
    })
}

/// Formats five columns of milliseconds. A missing value is a hyphen.
fn latency_columns(latency: Option<Latency>) -> String {
    let Some(latency) = latency else { return format!(" {:>9}", "-").repeat(5) };
    let Latency { average_us, p50_us, p90_us, p99_us, max_us, .. } = latency;
    let column = |us: u64| format!(" {:>9.1}", us as f64 / 1000.0);
    [average_us, p50_us, p90_us, p99_us, max_us].map(column).concat()
}
