//! The manager of this user, or of the machine, asked where it usually listens.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Answer, Ask, Error, ask};
use crate::config::{self, Place};

/// Timeout of a response of the manager.
const ANSWER_MS: u64 = 5_000;
/// Time added for a scan. The manager waits a second less for the guest's daemon.
const SCAN_MS: u64 = 6_000;

/// Control socket of this user's manager, if no settings file names another. Without such a manager
/// it is the socket of root's manager, which may serve other users.
fn usual_socket() -> Option<PathBuf> {
    let system = Place { is_root: true, ..Place::default() };
    let socket = |place: &Place| config::load(None, place).ok()?.settings.control.socket;
    let own = socket(&Place::of_this_process(None));
    match own {
        Some(own) if own.exists() => Some(own),
        own => socket(&system).filter(|path| path.exists()).or(own),
    }
}

/// Asks the manager at the socket that is named, or at the usual one.
pub fn ask_manager(named: Option<&Path>, question: &Ask) -> Result<Answer, Error> {
    let Some(path) = named.map(Path::to_path_buf).or_else(usual_socket) else {
        let why = Place::of_this_process(None).no_own_dir.unwrap_or_default();
        return Err(Error::NoPlace { why });
    };
    // A reservation is answered when it is decided.
    let waits_ms = match question {
        Ask::Reserve { timeout_ms, .. } => *timeout_ms,
        // The guest itself has to answer first.
        Ask::Scan { .. } => SCAN_MS,
        _ => 0,
    };
    ask(&path, question, Duration::from_millis(ANSWER_MS.saturating_add(waits_ms)))
}
