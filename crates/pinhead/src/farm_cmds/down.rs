//! `pinhead down`: a farm ends, and nothing of it stays.

use super::{DownArgs, find};
use crate::Error;
use crate::up::rundir;
use farm::service;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::time::Duration;
use vm::{Clock, wait_for_exit};

/// A thousand guests give their memory back in less.
const PATIENCE: Duration = Duration::from_secs(20);

/// Ends a farm, and waits until it is gone. One that does not answer is killed: its guests end
/// with it, and what it leaves is cleared here.
pub fn down(args: &DownArgs) -> Result<String, Error> {
    let found = match find::farm(args.farm.as_deref()) {
        Ok(found) => found,
        Err(error) => {
            // What a killed farm has left is cleared all the same.
            rundir::sweep_all();
            return Err(error);
        }
    };
    let clock = Clock::new();
    let asked = service::ask(&found.socket, &json!({ "down": true }));
    let guests = asked.as_ref().ok().and_then(|(_, value)| value.get("down")?.as_u64());
    let gone = |patience| {
        wait_for_exit(found.pid, patience)
            .map_err(|e| Error::step(format!("Process {} cannot be watched", found.pid), e))
    };
    let mut how = "";
    if asked.is_err() || !gone(PATIENCE)? {
        how = ", killed, for it did not answer";
        let pid = i32::try_from(found.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended in this moment.
            let _ = kill_process(pid, Signal::KILL);
        }
        if !gone(PATIENCE)? {
            let message = format!("Farm {} (process {}) does not end", found.name, found.pid);
            return Err(Error::Message(message));
        }
    }
    rundir::sweep_all();
    let guests = guests.map_or("its guests".to_owned(), |guests| match guests {
        1 => "1 guest".to_owned(),
        guests => format!("{guests} guests"),
    });
    let seconds = clock.ms() as f64 / 1000.0;
    Ok(format!("{}: {guests} ended in {seconds:.1} s{how}\n", found.name))
}
