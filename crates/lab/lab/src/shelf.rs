//! Results as files: written atomically, listed, and read defensively.

use crate::outcome::{FORMAT, Outcome};
use crate::{Error, View, page};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Maximum size of a result's file. A result holds a few thousand numbers, which need much less.
const BYTES_MAX: u64 = 16 << 20;
/// Maximum number of files examined in one directory.
pub(crate) const FILES_MAX: usize = 4096;

/// The path of a possible result, and the result or the error.
pub type OnShelf = (PathBuf, Result<Outcome, Error>);

/// Writes a result and its page, each atomically. Both files are written after every phase, so that
/// the measures survive any end of the experiment.
pub fn save(outcome: &Outcome, view: &View, directory: &Path) -> Result<PathBuf, Error> {
    let name = file_name(outcome);
    fs::create_dir_all(directory).map_err(Error::file("create", directory))?;
    let mut json = serde_json::to_vec_pretty(outcome)
        .map_err(|error| Error::Failed(format!("The result cannot be written: {error}")))?;
    json.push(b'\n');
    let path = directory.join(format!("{name}.json"));
    replace(&path, &json)?;
    replace(&directory.join(format!("{name}.html")), page::page(outcome, view).as_bytes())?;
    Ok(path)
}

/// Returns the name of a result's files: the experiment and its start time.
pub fn file_name(outcome: &Outcome) -> String {
    let started = outcome.started.chars().filter(char::is_ascii_alphanumeric).take(15);
    let quick = if outcome.quick { "-quick" } else { "" };
    format!("{}{quick}-{}", outcome.experiment, started.collect::<String>())
}

/// Reads a result. The directory may contain foreign files, so a pipe does not block the read, and
/// a growing file is not read to its end.
pub fn load(path: &Path) -> Result<Outcome, Error> {
    let failed = || Error::file("read", path);
    let wrong = |reason: String| Error::NotAResult { path: path.to_path_buf(), reason };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(file.map_err(io::Error::from).map_err(failed())?);
    if !file.metadata().map_err(failed())?.is_file() {
        return Err(wrong("it is not a regular file".into()));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed())?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(wrong(format!("it has more than {BYTES_MAX} bytes, the maximum of a result")));
    }
    parse(&bytes).map_err(wrong)
}

/// Parses a result's bytes.
pub fn parse(bytes: &[u8]) -> Result<Outcome, String> {
    let outcome: Outcome = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    match outcome.format {
        0 => Err("its field `format` is 0, but the first layout is 1".into()),
        1..=FORMAT => Ok(outcome),
        newer => {
            Err(format!("its field `format` is {newer}, but this program reads 1 to {FORMAT}"))
        }
    }
}

/// Returns the results in a directory, oldest first, including unreadable ones.
pub fn list(directory: &Path) -> Result<Vec<OnShelf>, Error> {
    let entries = fs::read_dir(directory).map_err(Error::file("read", directory))?;
    let mut found = Vec::new();
    for entry in entries.take(FILES_MAX) {
        let path = entry.map_err(Error::file("read", directory))?.path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let outcome = load(&path);
            found.push((path, outcome));
        }
    }
    let started = |one: &Result<Outcome, Error>| {
        one.as_ref().map(|one| one.started.clone()).unwrap_or_default()
    };
    found.sort_by_cached_key(|(path, outcome)| (started(outcome), path.clone()));
    Ok(found)
}

fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let part = path.with_added_extension("part");
    let written = File::create(&part).and_then(|mut file| {
        file.write_all(bytes)?;
        // Without a sync, a crash of the machine may leave the new name without the bytes.
        file.sync_all()
    });
    written.map_err(Error::file("write", &part))?;
    fs::rename(&part, path).map_err(Error::file("write", path))
}
