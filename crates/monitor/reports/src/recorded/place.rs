//! Paths of recordings and of the journal next to them.

use crate::recorded::Error;
use manager::config::Place;
use std::path::{Path, PathBuf};
use store::Records;

/// Maximum age of the last minute of recordings that a manager still writes.
const GROWING_MS: i64 = 5 * 60_000;

/// Returns the path of the journal of this user's manager, or else of the machine's journal.
/// Members of the journal's group may read the machine's journal.
pub fn usual_journal() -> PathBuf {
    journal_of_user(
        Place::of_this_process(None).journal(),
        Path::new("/var/lib/pinhead/journal.db"),
    )
}

fn journal_of_user(own: Option<PathBuf>, machines: &Path) -> PathBuf {
    match own {
        Some(own) if own.exists() || !machines.exists() => own,
        _ => machines.to_path_buf(),
    }
}

/// Returns the named directory of recordings, or else the usual directory.
pub fn dir(named: Option<&Path>) -> Result<PathBuf, Error> {
    let path = named.map_or_else(usual_dir, Path::to_path_buf);
    if named.is_none() && !path.exists() {
        return Err(Error::Missing(path));
    }
    Ok(path)
}

/// Returns the time at which a command's time span ends by default, in milliseconds since 1970.
/// That is the present, except for a named directory of recordings that ended more than
/// [`GROWING_MS`] ago.
pub fn usual_end(named: Option<&Path>, now_ms: i64) -> Result<i64, Error> {
    let Some(path) = named else { return Ok(now_ms) };
    let end_ms = Records::open(&dir(Some(path))?)?.extent()?.map(|(_, end_ms)| end_ms);
    Ok(end_ms.filter(|end_ms| *end_ms < now_ms.saturating_sub(GROWING_MS)).unwrap_or(now_ms))
}

/// Returns the path of the journal that belongs to recordings: the journal next to a named
/// directory, or else the usual journal.
pub fn journal_of(dir: Option<&Path>) -> PathBuf {
    match dir {
        // The path `.` has no file name, so the directory's real path is needed.
        Some(dir) => match dir.canonicalize() {
            Ok(whole) => whole.with_file_name("journal.db"),
            Err(_) => dir.with_file_name("journal.db"),
        },
        None => usual_journal(),
    }
}

/// Returns the directory in which the manager records by default: next to its journal.
fn usual_dir() -> PathBuf {
    usual_journal().with_file_name("recordings")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_e03_machines_journal_is_read_without_own_one() {
        let dir = std::env::temp_dir().join(format!("pinhead-journals-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (own, machines) = (dir.join("own.db"), dir.join("machines.db"));
        let usual = || journal_of_user(Some(own.clone()), &machines);
        assert_eq!(usual(), own);
        std::fs::write(&machines, "").unwrap();
        assert_eq!(
            (usual(), journal_of_user(None, &machines)),
            (machines.clone(), machines.clone())
        );
        std::fs::write(&own, "").unwrap();
        assert_eq!(usual(), own);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
