//! Sends requests to the manager of this user, or of the machine, at its usual socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Answer, Ask, Error, ask};
use crate::config::{self, Place};

/// Time to wait for the manager's response.
const ANSWER_MS: u64 = 5_000;
/// Time added for a scan. The manager itself waits a second less for the guest's daemon.
const SCAN_MS: u64 = 6_000;

/// Returns the control socket from this user's settings. If that socket does not exist, returns the
/// socket of root's manager, which may serve other users.
fn usual_socket() -> Option<PathBuf> {
    let system = Place { is_root: true, ..Place::default() };
    let socket = |place: &Place| config::load(None, place).ok()?.settings.control.socket;
    let own = socket(&Place::of_this_process(None));
    match own {
        Some(own) if own.exists() => Some(own),
        own => socket(&system).filter(|path| path.exists()).or(own),
    }
}

/// Sends a request to the manager at the given socket, or else at the usual socket.
pub fn ask_manager(named: Option<&Path>, question: &Ask) -> Result<Answer, Error> {
    let Some(path) = named.map(Path::to_path_buf).or_else(usual_socket) else {
        let why = Place::of_this_process(None).no_own_dir.unwrap_or_default();
        return Err(Error::NoPlace { why });
    };
    // The manager responds to a reservation only when its outcome is known.
    let waits_ms = match question {
        Ask::Reserve { timeout_ms, .. } => *timeout_ms,
        // The manager must first wait for the guest's response.
        Ask::Scan { .. } => SCAN_MS,
        _ => 0,
    };
    ask(&path, question, Duration::from_millis(ANSWER_MS.saturating_add(waits_ms)))
}
