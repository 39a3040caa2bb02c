//! Files of saved states: the search for complete states, their use, and their removal.
//!
//! ```text
//!   KEY.state                   the state: it exists only if all of its files are on the disk
//!   KEY.memory                  the state's memory, if it is in a separate file
//!   KEY.part                    an unfinished state, in progress or left by a killed process
//! ```

use std::fs::{self, File, FileTimes, Metadata};
use std::io;
use std::iter;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use base::StableHash;

use crate::Error;
use crate::images::time_of_day;
use crate::images::{FileContext, by_age};

/// Number of states kept. Beyond this number, the least recently used states are removed. Each
/// state has some tens of megabytes.
const KEPT_STATES: usize = 8;

/// The unit of a file's block count, in bytes.
const BLOCK: u64 = 512;

/// The extensions of the files that belong to a state.
const PARTS: [&str; 2] = ["memory", "part"];

/// An open file that stays readable even if it is renamed or removed.
#[derive(Clone, Debug)]
pub struct Held {
    path: PathBuf,
    file: Arc<File>,
}

impl Held {
    fn open(path: &Path) -> Option<Held> {
        Some(Held { path: path.to_owned(), file: Arc::new(File::open(path).ok()?) })
    }

    /// Returns the name by which the file was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file again, with its own offset.
    pub fn reopen(&self) -> Result<File, Error> {
        let file = File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        Ok(file.file("open", &self.path)?)
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.path == other.path
    }
}

/// The saved state of a guest.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// File with the devices' state. Without a separate memory file, this file also contains the
    /// memory.
    pub state: Held,
    /// File with the guest's memory, if clones share this memory.
    pub memory: Option<Held>,
    /// Size of the files on the disk, in bytes.
    pub bytes: u64,
}

impl Template {
    /// Returns a number that identifies this template. A template that is made again gets another
    /// number.
    pub fn stamp(&self) -> io::Result<u64> {
        let mut hash = StableHash::default();
        for held in iter::once(&self.state).chain(&self.memory) {
            let data = held.file.metadata()?;
            hash.put(held.path.as_os_str().as_encoded_bytes());
            let numbers = [data.ino(), data.len(), data.mtime() as u64, data.mtime_nsec() as u64];
            numbers.iter().for_each(|number| hash.put(&number.to_le_bytes()));
        }
        Ok(hash.finish())
    }
}

pub(crate) fn memory_of(state: &Path) -> PathBuf {
    state.with_extension("memory")
}

/// Opens a complete state, and its memory file if one is required.
pub(crate) fn found(state: &Path, has_memory: bool) -> Option<Template> {
    let on_disk = |path: &Path| Some(fs::metadata(path).ok()?.blocks() * BLOCK).filter(|&n| n > 0);
    let mut bytes = on_disk(state)?;
    let memory = match has_memory {
        false => None,
        true => {
            let memory = memory_of(state);
            bytes += on_disk(&memory)?;
            Some(Held::open(&memory)?)
        }
    };
    let state = Held::open(state)?;
    let now = FileTimes::new().set_accessed(SystemTime::UNIX_EPOCH + time_of_day());
    // In another user's cache this call may be refused. The time then changes only when the owner
    // uses the state.
    let _ = state.file.set_times(now);
    Some(Template { state, memory, bytes })
}

/// Removes the remains of an unfinished state, and the memory file of the state.
pub(crate) fn clear(state: &Path) {
    for end in PARTS {
        let _ = fs::remove_file(state.with_extension(end));
    }
}

/// Removes old states, so that there is room for one more. The caller must hold the lock, so that
/// no other process makes a state meanwhile.
pub(crate) fn remove_old(directory: &Path) -> Result<(), Error> {
    let has_end = |path: &Path, ends: &[&str]| {
        path.extension().is_some_and(|end| ends.iter().any(|known| end == *known))
    };
    let mut found = by_age(directory, Metadata::accessed)?;
    for (_, path) in &found {
        if has_end(path, &PARTS) && !path.with_extension("state").exists() {
            let _ = fs::remove_file(path);
        }
    }
    found.retain(|(_, path)| has_end(path, &["state"]));
    found.truncate((found.len() + 1).saturating_sub(KEPT_STATES));
    for (_, path) in found {
        fs::remove_file(&path).file("remove", &path)?;
        clear(&path);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn least_used_states_and_remains_of_killed_makers_are_removed() {
        let dir = crate::Scratch::new("vm-saved").unwrap();
        let make = |name: &str| {
            fs::write(dir.join(name), name).unwrap();
            dir.join(name)
        };
        for number in 0..KEPT_STATES {
            let (state, _) = (make(&format!("{number}.state")), make(&format!("{number}.memory")));
            let used = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(number as u64);
            let file = File::options().write(true).open(state).unwrap();
            file.set_times(FileTimes::new().set_accessed(used)).unwrap();
        }
        let left = ["a.part", "b.memory"].map(make);
        // The use of the oldest state makes it the newest.
        let oldest = found(&dir.join("0.state"), true).unwrap();
        let next = found(&dir.join("1.state"), true).unwrap();
        let long_ago = FileTimes::new().set_accessed(SystemTime::UNIX_EPOCH);
        next.state.file.set_times(long_ago).unwrap();
        remove_old(dir.path()).unwrap();
        assert!(left.iter().all(|path| !path.exists()), "{left:?}");
        assert!(oldest.state.path().exists() && memory_of(oldest.state.path()).exists());
        assert!(!next.state.path().exists() && !memory_of(next.state.path()).exists());
        let mut text = String::new();
        next.memory.unwrap().reopen().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "1.memory", "an open file stays readable");
    }

    #[test]
    fn a_state_without_its_memory_is_none() {
        let dir = crate::Scratch::new("vm-saved").unwrap();
        let state = dir.join("0.state");
        fs::write(&state, "x").unwrap();
        assert!(found(&state, false).is_some() && found(&state, true).is_none());
    }
}
