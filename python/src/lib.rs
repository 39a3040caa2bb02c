//! Native part of the Python package `pinhead`: recordings as columns, and what-if questions.
//!
//! This part makes no decisions. Columns are buffers that Arrow takes as they are, and results are
//! the same JSON that the command line writes. The package makes tables of both.

mod columns;
mod rows;

use base::Bytes;
use columns::{Described, Part};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use serde::Serialize;
use std::error::Error as StdError;
use std::path::PathBuf;
use store::Records;
use whatif::backtest::{
    self, AgreementDocument, DecisionDocument, FitDocument, Played, Question, Replay,
    ReplayDocument, RunDocument, Sizes, SizesDocument, World,
};
use whatif::{Change, Options};

create_exception!(pinhead, Error, PyException, "A question that cannot be answered, and why.");

fn failed(error: &dyn StdError) -> PyErr {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(&format!(": {source}"));
        cause = source.source();
    }
    Error::new_err(text)
}

fn json(document: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(document).map_err(|error| failed(&error))
}

/// Returns the start of the first minute and the end of the last; `None` without recordings.
#[pyfunction]
fn extent(py: Python<'_>, dir: PathBuf) -> PyResult<Option<(i64, i64)>> {
    py.detach(|| Records::open(&dir)?.extent()).map_err(|error| failed(&error))
}

/// Returns the times without data: start, end and reason.
#[pyfunction]
fn gaps(
    py: Python<'_>,
    dir: PathBuf,
    from_ms: i64,
    to_ms: i64,
) -> PyResult<Vec<(i64, i64, String)>> {
    let found =
        py.detach(|| Records::open(&dir)?.gaps(from_ms, to_ms)).map_err(|error| failed(&error))?;
    Ok(found.into_iter().map(|gap| (gap.from_ms, gap.to_ms, gap.reason)).collect())
}

/// Returns the fields of a part: name, unit, kind, source and documentation.
#[pyfunction]
fn fields(part: &str) -> PyResult<Vec<Described>> {
    Ok(Part::named(part).map_err(PyValueError::new_err)?.fields())
}

/// Returns a part of the recordings in steps of `step_ms`, or its samples if `step_ms` is missing.
#[pyfunction]
#[pyo3(signature = (dir, part, from_ms, to_ms, step_ms, fields))]
fn table(
    py: Python<'_>,
    dir: PathBuf,
    part: &str,
    from_ms: i64,
    to_ms: i64,
    step_ms: Option<i64>,
    fields: Option<Vec<String>>,
) -> PyResult<Py<PyList>> {
    let part = Part::named(part).map_err(PyValueError::new_err)?;
    let wanted = part.wanted(fields.as_deref()).map_err(PyValueError::new_err)?;
    let read = || {
        let records = Records::open(&dir)?;
        match step_ms {
            Some(step_ms) => rows::intervals(&records, part, &wanted, from_ms, to_ms, step_ms),
            None => rows::samples(&records, part, &wanted, from_ms, to_ms),
        }
    };
    let columns = py.detach(read).map_err(|error| failed(&error))?;
    let list = PyList::empty(py);
    for column in columns {
        let bytes = PyBytes::new(py, &column.values);
        let known = column.known.as_deref().map(|bits| PyBytes::new(py, bits));
        list.append((column.name, column.kind, bytes, known, column.rows, column.texts))?;
    }
    Ok(list.unbind())
}

fn world(
    policy: Option<String>,
    host: Option<u64>,
    growth_permille: u64,
    more: Option<(u32, String)>,
) -> World {
    World { policy, host: host.map(Bytes), growth_permille, more }
}

/// Replays passes, and optionally again in another world. Returns JSON, and the decisions of both.
#[pyfunction]
#[pyo3(signature = (dir, from_ms, to_ms, journal, policy, host, growth_permille, more, decisions))]
#[expect(clippy::too_many_arguments, reason = "Python's side names them")]
fn replay(
    py: Python<'_>,
    dir: PathBuf,
    from_ms: i64,
    to_ms: i64,
    journal: Option<PathBuf>,
    policy: Option<String>,
    host: Option<u64>,
    growth_permille: u64,
    more: Option<(u32, String)>,
    decisions: bool,
) -> PyResult<(String, Option<String>, Option<String>)> {
    let world = world(policy, host, growth_permille, more);
    // A player cannot leave its thread, so the result becomes text there.
    let answer = || -> Result<_, Box<dyn StdError + Send + Sync>> {
        let change = world.change()?;
        let source = Replay::open(&dir, from_ms, to_ms)?;
        // The comparison with a journal needs all decisions.
        let most = if decisions || journal.is_some() { usize::MAX } else { 0 };
        let played = source.play(Change::default(), most)?;
        if let Some((_, like)) = &world.more {
            played.must_have(like)?;
        }
        let agreement = match &journal {
            Some(path) => Replay::agreement(path, &played)?,
            None => None,
        };
        let other = match change.is_none() {
            true => None,
            false => Some(source.play(change, if decisions { usize::MAX } else { 0 })?),
        };
        let name = world.policy.as_deref().unwrap_or("another world");
        let document = ReplayDocument {
            recorded: RunDocument::of("recorded", &played),
            agreement: agreement.as_ref().map(AgreementDocument::of),
            other: other.as_ref().map(|other| RunDocument::of(name, other)),
        };
        let told = |played: &Played| {
            let all: Vec<_> = played.decisions.iter().map(DecisionDocument::of).collect();
            serde_json::to_string(&all)
        };
        let ours = decisions.then(|| told(&played)).transpose()?;
        let theirs = other.as_ref().filter(|_| decisions).map(told).transpose()?;
        Ok((serde_json::to_string(&document)?, ours, theirs))
    };
    py.detach(answer).map_err(|error| failed(&*error))
}

/// Returns the number of additional guests that fit, as JSON. Their load is that of the guests
/// with names that match a pattern.
#[pyfunction]
#[pyo3(signature = (dir, from_ms, to_ms, like, policy, host, growth_permille))]
#[expect(clippy::too_many_arguments, reason = "Python's side names them")]
fn fit(
    py: Python<'_>,
    dir: PathBuf,
    from_ms: i64,
    to_ms: i64,
    like: String,
    policy: Option<String>,
    host: Option<u64>,
    growth_permille: u64,
) -> PyResult<String> {
    let world = world(policy, host, growth_permille, None);
    let answer = || backtest::search(&Replay::open(&dir, from_ms, to_ms)?, &world, &like, &|_| ());
    let fit = py.detach(answer).map_err(|error| failed(&error))?;
    json(&FitDocument::of(&fit, &like))
}

/// Returns the recommended sizes of guests, as JSON.
#[pyfunction]
#[pyo3(signature = (
    dir, from_ms, to_ms, guests, percentile_permille, headroom_permille, enough_ms
))]
#[expect(clippy::too_many_arguments, reason = "Python's side names them")]
fn size(
    py: Python<'_>,
    dir: PathBuf,
    from_ms: i64,
    to_ms: i64,
    guests: Vec<String>,
    percentile_permille: u64,
    headroom_permille: u64,
    enough_ms: u64,
) -> PyResult<String> {
    let options = Options { percentile_permille, headroom_permille, enough_ms };
    let answer = || Sizes::of(&dir, Question::new(from_ms, to_ms, options)?, &guests);
    let sizes = py.detach(answer).map_err(|error| failed(&error))?;
    json(&SizesDocument::of(&sizes))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Error", module.py().get_type::<Error>())?;
    module.add_function(wrap_pyfunction!(extent, module)?)?;
    module.add_function(wrap_pyfunction!(gaps, module)?)?;
    module.add_function(wrap_pyfunction!(fields, module)?)?;
    module.add_function(wrap_pyfunction!(table, module)?)?;
    module.add_function(wrap_pyfunction!(replay, module)?)?;
    module.add_function(wrap_pyfunction!(fit, module)?)?;
    module.add_function(wrap_pyfunction!(size, module)?)
}
