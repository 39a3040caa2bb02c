//! The current minute, computed from its samples, so that a new recording shows data at once.
//!
//! ```text
//!   raw.db ─► state before the minute, its moments ─► Folder ─► minute so far
//! ```
//!
//! The result is the part of the current minute that is recorded so far. If the recorder was
//! killed, the part ends with the last sample.

use super::raw::{Left, RawFile};
use super::rows::did_something;
use super::scan::{Pick, put};
use crate::Error;
use base::duration::MINUTE_MS;
use model::{Field, Folder, Interval, Over};
use std::ops::ControlFlow;
use std::path::Path;

/// A minute as far as it is recorded.
#[derive(Debug)]
pub struct Running {
    minute: Interval,
    /// Time of the last moment.
    pub to_ms: i64,
}

impl Running {
    /// Reads the current minute of a directory, or returns `None` if the minute has no samples.
    pub fn of_dir(dir: &Path) -> Result<Option<Running>, Error> {
        let Some(file) = RawFile::read_only(dir)? else { return Ok(None) };
        let mut folder = Folder::default();
        file.left(|left| {
            match left {
                Left::Known(moment) => folder.know(&moment),
                Left::Moment(moment) => drop(folder.feed(&moment)),
            }
            ControlFlow::Continue(())
        })?;
        let to_ms = folder.last_ms();
        Ok(folder.end().zip(to_ms).map(|(minute, to_ms)| Running { minute, to_ms }))
    }

    /// Returns the start of the minute.
    pub fn begins_ms(&self) -> i64 {
        self.minute.from_ms
    }

    /// Returns the end of the minute.
    pub fn over_ms(&self) -> i64 {
        self.minute.from_ms.saturating_add(MINUTE_MS)
    }

    /// Returns the covered part of the minute.
    pub fn covered_ms(&self) -> u64 {
        self.minute.host.covered_ms
    }

    /// Adds the wanted parts of the minute to an interval.
    pub fn add_to(&self, interval: &mut Interval, pick: &Pick) {
        interval.host.add(&self.minute.host);
        if let Some(fields) = &pick.guests {
            for (who, over) in &self.minute.guests {
                put(&mut interval.guests, who, only(over, fields));
            }
        }
        if let Some(fields) = &pick.tiers {
            for (name, over) in &self.minute.tiers {
                put(&mut interval.tiers, name, only(over, fields));
            }
        }
        if let Some(fields) = &pick.processes {
            for (who, all) in &self.minute.processes {
                for (name, over) in all.iter().filter(|(_, over)| did_something(over)) {
                    let of_guest = interval.processes.entry(who.clone()).or_default();
                    put(of_guest, name, only(over, fields));
                }
            }
        }
    }
}

fn only<F: Field>(over: &Over<F>, fields: &[F]) -> Over<F> {
    let mut some = Over { covered_ms: over.covered_ms, ..Over::default() };
    fields.iter().for_each(|field| some.row.set(*field, over.get(*field)));
    some
}
