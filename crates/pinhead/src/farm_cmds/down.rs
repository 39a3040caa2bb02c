//! `pinhead down`: a farm ends, and nothing of it stays.

use super::DownArgs;
use super::find::{self, Found};
use crate::Error;
use crate::up::rundir;
use base::counted;
use farm::service;
use rustix::process::{Signal, pidfd_send_signal};
use serde_json::json;
use std::time::Duration;
use vm::{Clock, wait_for_end};

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
    let ended = end(&found);
    if ended.is_ok() {
        rundir::sweep_all();
    }
    ended
}

/// Ends a farm's process. Its number is another's as soon as it has ended, so that it is asked,
/// awaited and killed by a descriptor that was its own while it held its directory.
fn end(found: &Found) -> Result<String, Error> {
    let clock = Clock::new();
    let held = rundir::holder(found.pid, &found.socket);
    let asked = service::ask(&found.socket, &json!({ "down": true }));
    let process = held.map_err(|e| {
        let how = if asked.is_ok() { "was asked to end" } else { "does not answer" };
        let text = format!(
            "Farm {} (process {}) {how}, and whether it ends cannot be seen",
            found.name, found.pid
        );
        Error::step(text, e)
    })?;
    let guests = asked.as_ref().ok().and_then(|(_, value)| value.get("down")?.as_u64());
    let gone = || match &process {
        None => Ok(true),
        Some(process) => wait_for_end(process, PATIENCE)
            .map_err(|e| Error::step(format!("Process {} cannot be watched", found.pid), e)),
    };
    let mut how = "";
    if let Some(process) = &process
        && (asked.is_err() || !gone()?)
    {
        how = ", killed, for it did not answer";
        // It may have ended in this moment.
        let _ = pidfd_send_signal(process, Signal::KILL);
    }
    if !gone()? {
        let message = format!("Farm {} (process {}) does not end", found.name, found.pid);
        return Err(Error::Message(message));
    }
    let guests = guests.map_or("its guests".to_owned(), |guests| counted(guests, "guest"));
    let seconds = clock.ms() as f64 / 1000.0;
    Ok(format!("{}: {guests} ended in {seconds:.1} s{how}\n", found.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::process::{Child, Command};
    use vm::{Deadline, Scratch};

    /// A process, and the directory of a farm that has its number and answers to nobody.
    fn process_with_directory(scratch: &Scratch, command: &mut Command) -> (Child, Found) {
        let dir = scratch.path().join("farm");
        fs::create_dir(&dir).unwrap();
        let lock = dir.join("lock");
        File::create(&lock).unwrap();
        let child = command.arg(&lock).args(["sleep", "1000"]).spawn().unwrap();
        let socket = dir.join(service::SOCKET);
        let found = Found { name: "shop".into(), pid: child.id(), socket };
        (child, found)
    }

    #[test]
    fn finding_14_a_process_that_has_a_dead_farms_number_is_not_killed() {
        let scratch = Scratch::new("down-other").unwrap();
        // The name of the lock is its own; it does not hold it.
        let (mut other, found) =
            process_with_directory(&scratch, Command::new("sh").args(["-c", "exec sleep 1000"]));
        let told = end(&found);
        let status = other.try_wait().unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(status, None, "the other process was ended: {told:?}");
        assert!(!told.unwrap().contains("killed"));
    }

    #[test]
    fn a_farm_whose_process_cannot_be_watched_is_not_told_to_have_ended() {
        let scratch = Scratch::new("down-unseen").unwrap();
        let (mut gone, found) =
            process_with_directory(&scratch, Command::new("sh").args(["-c", "exit"]));
        gone.wait().unwrap();
        assert!(end(&found).unwrap().contains("ended"), "nobody holds it");
        // Held, with no descriptor of the holder.
        let lock = File::open(found.socket.with_file_name("lock")).unwrap();
        lock.try_lock().unwrap();
        let told = end(&found).map_err(|error| error.to_string()).unwrap_err();
        assert!(told.contains("whether it ends cannot be seen"), "{told}");
    }

    #[test]
    fn finding_14_a_farm_that_does_not_answer_is_killed_by_its_descriptor() {
        let scratch = Scratch::new("down-dead").unwrap();
        let (mut farm, found) =
            process_with_directory(&scratch, Command::new("flock").arg("--no-fork"));
        let deadline = Deadline::after(Duration::from_secs(60));
        while rundir::holder(found.pid, &found.socket).unwrap().is_none() {
            assert!(deadline.remaining().is_some(), "it does not lock its directory");
            std::thread::yield_now();
        }
        let told = std::thread::scope(|scope| {
            let ending = scope.spawn(|| end(&found).map_err(|error| error.to_string()));
            let status = farm.wait().unwrap();
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
            ending.join().unwrap().unwrap()
        });
        assert!(told.contains("its guests ended") && told.contains("killed"), "{told}");
    }
}
