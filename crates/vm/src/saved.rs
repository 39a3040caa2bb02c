//! Where saved states lie: what is whole, who has it, and what goes.
//!
//! ```text
//!   KEY.state                   the state: it is there when all that belongs to it is on the disk
//!   KEY.memory                  the memory that belongs to it, if that is a file of its own
//!   KEY.part                    of one that is being made, or was when its maker was killed
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
use images::{FileContext, by_age};

use crate::Error;
use images::time_of_day;

/// Those that were not used for the longest time are removed beyond this number; each has some
/// tens of megabytes.
const KEPT_STATES: usize = 8;

/// What a file's blocks are counted in.
const BLOCK: u64 = 512;

/// What belongs to a state, by the ends of its name.
const PARTS: [&str; 2] = ["memory", "part"];

/// A file that can be read for as long as this is there, whatever becomes of its name.
#[derive(Clone, Debug)]
pub struct Held {
    path: PathBuf,
    file: Arc<File>,
}

impl Held {
    fn open(path: &Path) -> Option<Held> {
        Some(Held { path: path.to_owned(), file: Arc::new(File::open(path).ok()?) })
    }

    /// Its name, when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opened once more, with a place of its own.
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
    /// The file with the state of its devices, and with its memory if that is nowhere else.
    pub state: Held,
    /// The file that is its memory, if clones are to have it in common.
    pub memory: Option<Held>,
    /// What both have on their disk.
    pub bytes: u64,
}

impl Template {
    /// A number of this very template: one that was made anew has another.
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

/// The memory that belongs to a state.
pub(crate) fn memory_of(state: &Path) -> PathBuf {
    state.with_extension("memory")
}

/// A whole state, with its memory if that is to be a file.
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
    // Who may not do that uses the cache of another user, who will.
    let _ = state.file.set_times(now);
    Some(Template { state, memory, bytes })
}

/// Removes what a state's making has left, and the memory that belongs to it.
pub(crate) fn clear(state: &Path) {
    for end in PARTS {
        let _ = fs::remove_file(state.with_extension(end));
    }
}

/// Leaves room for one more. The caller holds the lock, so that no state is made meanwhile.
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
    fn the_least_used_go_and_with_them_what_a_killed_maker_has_left() {
        let dir = std::env::temp_dir().join(format!("vm-saved-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
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
        // The oldest is used again, and is not the oldest any more.
        let oldest = found(&dir.join("0.state"), true).unwrap();
        let next = found(&dir.join("1.state"), true).unwrap();
        let long_ago = FileTimes::new().set_accessed(SystemTime::UNIX_EPOCH);
        next.state.file.set_times(long_ago).unwrap();
        remove_old(&dir).unwrap();
        assert!(left.iter().all(|path| !path.exists()), "{left:?}");
        assert!(oldest.state.path().exists() && memory_of(oldest.state.path()).exists());
        assert!(!next.state.path().exists() && !memory_of(next.state.path()).exists());
        let mut text = String::new();
        next.memory.unwrap().reopen().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "1.memory", "who has it still reads it");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_state_without_its_memory_is_none() {
        let state = std::env::temp_dir().join(format!("vm-saved-{}.state", std::process::id()));
        fs::write(&state, "x").unwrap();
        assert!(found(&state, false).is_some() && found(&state, true).is_none());
        fs::remove_file(state).unwrap();
    }
}
