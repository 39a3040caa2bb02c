//! Host rules with their values, from a snapshot file or from a manager.
//!
//! ```text
//!   --values FILE ─► Snapshot ─┐
//!   a running manager ─────────┴─► explain_host ─► Explained
//! ```

use super::explained::Explained;
use crate::args::ExplainArgs;
use crate::rulesfile::RulesText;
use crate::{Error, RulesError, SnapshotFault, check, manage};
use model::counters::HostCounter;
use rules::host::{self, HostProgram};
use rules::{Fault, MAX_HISTORY, Name};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Maximum size of a snapshot, in bytes. A snapshot with the full history of every counter takes a
/// tenth of this size.
const SNAPSHOT_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of readings of a counter that rules can use: the newest reading and the history.
const READINGS_MAX: usize = MAX_HISTORY as usize + 1;

/// A manager's values of a guest and of the host. Each counter has its readings, newest first. An
/// unknown reading is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot(BTreeMap<HostCounter, Vec<Option<f64>>>);

impl Snapshot {
    /// Reads a snapshot: `{"guest.available": [newest, older, ...], ...}`. A number instead of a
    /// list is the newest reading without history, and `null` is an unknown reading.
    pub fn read(path: &Path) -> Result<Snapshot, Error> {
        let mut text = Vec::new();
        File::open(path)
            .and_then(|file| file.take(SNAPSHOT_BYTES_MAX + 1).read_to_end(&mut text))
            .map_err(|e| Error::read(path, e))?;
        Snapshot::parse(&path.display().to_string(), &text)
    }

    /// Parses a snapshot's text. `name` names the text in messages.
    pub fn parse(name: &str, text: &[u8]) -> Result<Snapshot, Error> {
        let refuse = |fault| Err(RulesError::Snapshot { name: name.into(), fault }.into());
        if text.len() as u64 > SNAPSHOT_BYTES_MAX {
            return refuse(SnapshotFault::Large { bytes_max: SNAPSHOT_BYTES_MAX });
        }
        let parsed = match serde_json::from_slice(text) {
            Ok(Json::Object(parsed)) => parsed,
            Ok(_) => return refuse(SnapshotFault::NoObject),
            Err(error) => {
                let (line, column) = (error.line(), error.column());
                let message = "this is not valid JSON: write one object".into();
                return Err(Error::Line { path: name.into(), line, column, message });
            }
        };
        let mut readings = BTreeMap::new();
        for (key, value) in &parsed {
            let shown = || base::plain(key, 40);
            let Some(counter) = HostCounter::from_name(key) else {
                return refuse(SnapshotFault::NoCounter { key: shown() });
            };
            let list = match value {
                Json::Array(list) => list.as_slice(),
                one => std::slice::from_ref(one),
            };
            if list.len() > READINGS_MAX {
                return refuse(SnapshotFault::Readings { key: shown(), most: READINGS_MAX });
            }
            let is_reading = |value: &Json| value.is_number() || value.is_null();
            if !list.iter().all(is_reading) {
                return refuse(SnapshotFault::NoNumber { key: shown() });
            }
            readings.insert(counter, list.iter().map(Json::as_f64).collect());
        }
        Ok(Snapshot(readings))
    }

    /// Converts a manager's response. A counter that this program does not know is left out,
    /// because the manager may be of another version.
    fn of_manager(values: BTreeMap<String, Vec<Option<f64>>>) -> Snapshot {
        let known = values.into_iter().filter_map(|(name, mut readings)| {
            readings.truncate(READINGS_MAX);
            Some((HostCounter::from_name(&name)?, readings))
        });
        Snapshot(known.collect())
    }

    /// Returns the reading of a counter from `age` passes ago.
    pub fn get(&self, counter: HostCounter, age: usize) -> Option<f64> {
        self.0.get(&counter)?.get(age).copied().flatten()
    }
}

pub(super) fn run(rules: RulesText, args: &ExplainArgs) -> Result<Explained, Error> {
    if let Some(guest) = &args.guest {
        let inputs = manage::inputs(guest, args.socket.as_deref())?;
        let snapshot = Snapshot::of_manager(inputs.values);
        let seen = format!("the manager's last passes over {}", base::plain(guest, 60));
        return explain_host(rules, &|counter, age| snapshot.get(counter, age), seen);
    }
    let Some(path) = &args.values else {
        return Err(RulesError::NoValues { name: rules.name }.into());
    };
    let snapshot = Snapshot::read(path)?;
    let seen = format!("{}, the readings of one guest", path.display());
    explain_host(rules, &|counter, age| snapshot.get(counter, age), seen)
}

/// Shows every part of host rules with its value. `reading` returns the value that a counter had a
/// number of passes ago. `seen` names the source of the values.
pub fn explain_host(
    rules: RulesText,
    reading: &dyn Fn(HostCounter, usize) -> Option<f64>,
    seen: String,
) -> Result<Explained, Error> {
    let (program, found) = host::load(&rules.text);
    let Some(program) = program else {
        return Err(RulesError::Faults(check::errors(rules, found)).into());
    };
    let (file, _) = host::parse(&rules.text);
    let mut history = program.history();
    for age in (0..=program.intervals).rev() {
        let row = history.advance();
        for (value, counter) in row.iter_mut().zip(&program.counters) {
            *value = reading(*counter, age).unwrap_or(f64::NAN);
        }
    }
    let explanation = host::explain(&file, &program, &history);
    let newest = |(slot, counter): (usize, &HostCounter)| (*counter, history.get(slot, 0));
    let counters = program.counters.iter().enumerate().map(newest).collect();
    let verdicts = verdicts(&program, &program.evaluate(&history));
    Ok(Explained { rules, explanation, counters, verdicts, seen })
}

fn verdicts(program: &HostProgram, words: &host::HostWords) -> Vec<String> {
    let truth = |word: Option<Result<bool, Fault>>| {
        word.map(|word| word.map(|yes| if yes { "yes" } else { "no" }.to_owned()))
    };
    let size = |word: Option<Result<i64, Fault>>| {
        word.map(|word| word.map(|mib| format!("{} MiB", mib.max(0))))
    };
    let asked = [
        ("The guest gives memory", Name::ShrinkGuest, truth(words.shrink_guest)),
        ("The guest needs memory", Name::GrowGuest, truth(words.grow_guest)),
        ("The guest may be shrunk", Name::MayShrink, truth(words.may_shrink)),
        ("The guest may be grown", Name::MayGrow, truth(words.may_grow)),
        ("Size of a step down", Name::ShrinkSize, size(words.shrink_mib)),
        ("Size of a step up", Name::GrowSize, size(words.grow_mib)),
    ];
    let lines = asked.into_iter().map(|(what, name, answer)| match answer {
        None => format!("{what}: decided by the arbiter, because {} is not set", name.name()),
        Some(Ok(answer)) => format!("{what}: {answer}, by {}", name.name()),
        Some(Err(fault)) => {
            let reason = program.reason(&fault);
            format!("{what}: held, because {} has no value: {reason}", name.name())
        }
    });
    lines.collect()
}
