//! Resumption of an interrupted experiment.
//!
//! Figures of different machines or programs are not mixed, because a ratio is meaningful only
//! within one result.

use crate::outcome::FORMAT;
use crate::{Error, Outcome, shelf};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the newest result of an experiment in a directory, to resume the experiment. `fresh` is
/// the head of a new result. Returns `None` if there is no result yet.
pub fn resumed(directory: &Path, fresh: &Outcome) -> Result<Option<Outcome>, Error> {
    let Some(path) = newest(directory, fresh)? else { return Ok(None) };
    let refused = |reason: String| Error::NotResumed { path: path.clone(), reason };
    let mut outcome = shelf::load(&path).map_err(|error| refused(base::chain(&error)))?;
    if outcome.format != FORMAT {
        let format = outcome.format;
        return Err(refused(format!("its old layout {format} does not mark finished runs")));
    }
    if outcome.machine != fresh.machine {
        return Err(refused("it was begun on another machine, kernel or QEMU".into()));
    }
    if outcome.commit != fresh.commit {
        let shown = |commit: &Option<String>| commit.clone().unwrap_or_else(|| "not known".into());
        return Err(refused(format!(
            "it was begun with a program of commit {}, but this program is of commit {}",
            shown(&outcome.commit),
            shown(&fresh.commit)
        )));
    }
    if outcome.program != fresh.program {
        return Err(refused("it was begun with another build of the program".into()));
    }
    let kept = outcome.runs.iter().filter(|run| run.finished).count();
    let started = &fresh.started;
    outcome.notes.push(format!("Resumed at {started} with {kept} finished runs."));
    Ok(Some(outcome))
}

/// Returns the file of this experiment and form with the latest time in its name, readable or not.
fn newest(directory: &Path, fresh: &Outcome) -> Result<Option<PathBuf>, Error> {
    if !directory.is_dir() {
        return Ok(None);
    }
    // The name consists of the experiment, its form, and the time as digits with a T.
    let moment = fresh.started.chars().filter(char::is_ascii_alphanumeric).take(15).count();
    let name = shelf::file_name(fresh);
    let before = name.get(..name.len() - moment).unwrap_or_default();
    let entries = fs::read_dir(directory).map_err(Error::file("read", directory))?;
    let mut last: Option<PathBuf> = None;
    for entry in entries.take(shelf::FILES_MAX) {
        let path = entry.map_err(Error::file("read", directory))?.path();
        let is_json = path.extension().is_some_and(|ending| ending == "json");
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let is_it = stem.strip_prefix(before).is_some_and(|rest| {
            rest.len() == moment && rest.starts_with(|c: char| c.is_ascii_digit())
        });
        if is_json && is_it && last.as_ref().is_none_or(|last| *last < path) {
            last = Some(path);
        }
    }
    Ok(last)
}
