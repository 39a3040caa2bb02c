//! Results as files: written whole, found again, read with care.

use crate::outcome::{FORMAT, Outcome};
use crate::{Error, View, page};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// A result holds some thousands of numbers; a larger file is something else.
const BYTES_MAX: u64 = 16 << 20;
/// Files of one directory that are looked at.
pub(crate) const FILES_MAX: usize = 4096;

/// A file that seems to be a result, and what was read of it.
pub type OnShelf = (PathBuf, Result<Outcome, Error>);

/// Writes a result and its page, each whole or not at all; both again after every phase, so that
/// what was measured is there however the experiment ends.
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

/// What a result's files are called: the experiment and when it began.
pub fn file_name(outcome: &Outcome) -> String {
    let started = outcome.started.chars().filter(char::is_ascii_alphanumeric).take(15);
    let quick = if outcome.quick { "-quick" } else { "" };
    format!("{}{quick}-{}", outcome.experiment, started.collect::<String>())
}

/// Reads a result. A directory is listed with what others put there: a pipe of that name is not
/// waited for, and what grows while it is read is not read to its end.
pub fn load(path: &Path) -> Result<Outcome, Error> {
    let failed = || Error::file("read", path);
    let wrong = |reason: String| Error::NotAResult { path: path.to_path_buf(), reason };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(file.map_err(io::Error::from).map_err(failed())?);
    if !file.metadata().map_err(failed())?.is_file() {
        return Err(wrong("it is no regular file".into()));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed())?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(wrong(format!("it has more than {BYTES_MAX} bytes, which no result has")));
    }
    parse(&bytes).map_err(wrong)
}

/// Reads a result's bytes.
pub fn parse(bytes: &[u8]) -> Result<Outcome, String> {
    let outcome: Outcome = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    match outcome.format {
        0 => Err("its field `format` is 0, and the first layout is 1".into()),
        1..=FORMAT => Ok(outcome),
        newer => {
            Err(format!("its field `format` is {newer}, and this program knows 1 to {FORMAT}"))
        }
    }
}

/// The results of a directory, oldest first, with what cannot be read among them.
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
        // Without it the new name may outlive a crash of the machine, and the bytes may not.
        file.sync_all()
    });
    written.map_err(Error::file("write", &part))?;
    fs::rename(&part, path).map_err(Error::file("write", path))
}
