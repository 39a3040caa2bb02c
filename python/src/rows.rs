//! Tables from the rows of recordings.

use crate::columns::{Column, Columns, Part};
use base::duration::MINUTE_MS;
use model::{Field, GuestField, Interval, Moment, Over, ProcessField, Row, TierField};
use std::ops::ControlFlow;
use store::{Error, Pick, Records, STEPS_MAX, Span};

/// Reason why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The recordings cannot be read.
    #[error(transparent)]
    Store(#[from] Error),
    /// More steps than memory allows.
    #[error("the time has more than {STEPS_MAX} steps: use a longer `every`")]
    TooMany,
    /// Steps that are not whole minutes.
    #[error("steps are whole minutes: every=\"1min\", \"5min\", \"1h\"")]
    Uneven,
    /// Part of the time is recorded only as quarters of an hour.
    #[error(
        "of a part of this time only quarters of an hour are kept: say every=\"15min\", or a \
         multiple of that, or begin later"
    )]
    Coarse,
}

fn picked<F: Field>(part: Part, of: Part, wanted: &[usize]) -> Option<Vec<F>> {
    (part == of).then(|| wanted.iter().filter_map(|place| F::ALL.get(*place).copied()).collect())
}

/// Returns a table with steps of `step_ms`.
pub fn intervals(
    records: &Records,
    part: Part,
    wanted: &[usize],
    from_ms: i64,
    to_ms: i64,
    step_ms: i64,
) -> Result<Vec<Column>, Failure> {
    if step_ms <= 0 || step_ms % MINUTE_MS != 0 {
        return Err(Failure::Uneven);
    }
    let mut columns = Columns::new(part, wanted, false);
    if let Some((first_ms, last_ms)) = records.extent()?
        && to_ms.min(last_ms).saturating_sub(from_ms.max(first_ms)) / step_ms > STEPS_MAX
    {
        return Err(Failure::TooMany);
    }
    // Rows begin on round times, so the first step does too.
    let from_ms = from_ms - from_ms.rem_euclid(step_ms);
    let mut is_coarse = false;
    let pick = Pick {
        guests: picked::<GuestField>(part, Part::Guests, wanted),
        tiers: picked::<TierField>(part, Part::Tiers, wanted),
        processes: picked::<ProcessField>(part, Part::Processes, wanted),
    };
    let span = Span { from_ms, to_ms, step_ms };
    records.visit(span, pick, |interval| {
        // A row that covers much more time than a step is a row of a quarter of an hour.
        is_coarse |= interval.host.covered_ms > step_ms.unsigned_abs().saturating_mul(3) / 2;
        add_interval(&mut columns, part, &interval);
        match is_coarse {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    if is_coarse { Err(Failure::Coarse) } else { Ok(columns.finish()) }
}

fn add_interval(columns: &mut Columns, part: Part, interval: &Interval) {
    let at_ms = interval.from_ms;
    match part {
        Part::Host => columns.push(at_ms, interval.host.covered_ms, &[], &interval.host.row),
        Part::Guests => {
            for (who, over) in &interval.guests {
                let labels = [&*who.name, &*who.uuid, &*who.class];
                columns.push(at_ms, over.covered_ms, &labels, &over.row);
            }
        }
        Part::Tiers => {
            for (name, over) in &interval.tiers {
                columns.push(at_ms, over.covered_ms, &[name], &over.row);
            }
        }
        Part::Processes => {
            for (who, processes) in &interval.processes {
                for (process, over) in processes {
                    let labels = [&*who.name, &*who.uuid, &*process.name];
                    columns.push(at_ms, over.covered_ms, &labels, &over.row);
                    columns.pid(process.pid);
                }
            }
        }
    }
}

/// Returns a table of the samples.
pub fn samples(
    records: &Records,
    part: Part,
    wanted: &[usize],
    from_ms: i64,
    to_ms: i64,
) -> Result<Vec<Column>, Failure> {
    let mut columns = Columns::new(part, wanted, true);
    records.raw(from_ms, to_ms, |moment| {
        add_interval(&mut columns, part, &at_once(moment));
        ControlFlow::Continue(())
    })?;
    Ok(columns.finish())
}

/// Converts a moment to an interval without length, so that its rows are added like others.
fn at_once(moment: Moment) -> Interval {
    let Moment { at_ms, host, guests, tiers, processes } = moment;
    Interval {
        from_ms: at_ms,
        host: over(host),
        guests: guests.into_iter().map(|(who, row)| (who, over(row))).collect(),
        tiers: tiers.into_iter().map(|(name, row)| (name, over(row))).collect(),
        processes: processes
            .into_iter()
            .map(|(who, of)| (who, of.into_iter().map(|(name, row)| (name, over(row))).collect()))
            .collect(),
        ..Interval::default()
    }
}

fn over<F>(row: Row<F>) -> Over<F> {
    Over { covered_ms: 0, row }
}
