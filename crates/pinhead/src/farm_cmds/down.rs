//! `pinhead down`: stops a farm, and cleans up after it.

use super::DownArgs;
use super::find;
use crate::up::leftovers;
use crate::waiting::Task;
use crate::{Error, FarmCommandError};
use base::counted;
use farm::running::Running;
use farm::{rundir, service};
use manager::control::{Answer, Ask};
use procfs::{Chance, Work};
use rustix::process::{Signal, pidfd_send_signal};
use std::time::Duration;
use vm::{Clock, wait_for_end};

/// Time after which the farm is killed if neither the farm nor a guest was active.
const STILL_MS: u64 = 20_000;
/// Time after which an inactive farm that has not answered is killed. For such a farm the activity
/// of its guests does not count.
const DEAF_MS: u64 = 2_000;
/// Limit on the total wait, even for an active farm, as a multiple of the limit on inactivity.
const PATIENCE: u64 = 10;
/// Interval between two checks of the farm's activity.
const STEP: Duration = Duration::from_secs(1);
/// Minimum time of running or of waiting for a CPU, between two checks, that counts as activity.
const WORK_NS: u64 = 50_000_000;

/// Stops a farm, and waits until it is gone. A farm without activity is killed. The farm's guests
/// then end too, and the farm's leftovers are cleared here.
pub fn down(args: &DownArgs) -> Result<String, Error> {
    let found = match find::farm(args.farm.as_deref()) {
        Ok(found) => found,
        Err(error) => {
            // The leftovers of a killed farm are cleared in any case.
            leftovers::sweep_all();
            return Err(error);
        }
    };
    let task = Task::new(format!("ending {}", base::plain(&found.name, 40)));
    let ended = end(&found);
    drop(task);
    if ended.is_ok() {
        leftovers::sweep_all();
    }
    ended
}

/// Ends a farm's process. Once the process has ended, another process may get its process id. The
/// process is therefore signalled, awaited and killed through a pidfd, opened while the process
/// held the lock of the farm's directory.
fn end(found: &Running) -> Result<String, Error> {
    let clock = Clock::new();
    let held = rundir::holder(found.pid, &found.socket);
    let asked = service::ask(&found.socket, &Ask::Down);
    let process = held.map_err(|e| {
        let how = if asked.is_ok() { "accepted the request to end" } else { "does not answer" };
        let text = format!(
            "Farm {} (process {}) {how}, and its end cannot be observed",
            found.name, found.pid
        );
        Error::step(text, e)
    })?;
    // A farm that refuses the request, or has another version, still reacts to a signal.
    let has_spoken = !matches!(asked, Err(farm::Error::Silent { .. }));
    if let (true, Err(_), Some(process)) = (has_spoken, &asked, &process) {
        let _ = pidfd_send_signal(process, Signal::TERM);
    }
    let guests = match asked {
        Ok(Answer::Down { guests }) => Some(guests as u64),
        _ => None,
    };
    let lasts = |still_max_ms, work: fn(u32) -> Option<Work>| -> Result<Option<String>, Error> {
        let Some(process) = &process else { return Ok(None) };
        let mut ending = Ending::within(still_max_ms, clock.ms());
        loop {
            let is_gone = wait_for_end(process, STEP)
                .map_err(|e| Error::step(format!("Process {} cannot be watched", found.pid), e))?;
            if is_gone {
                return Ok(None);
            }
            if !ending.goes_on(work(found.pid), clock.ms()) {
                return Ok(Some(ending.why()));
            }
        }
    };
    let why = match has_spoken {
        true => lasts(STILL_MS, work_of_farm)?,
        // Activity of the guests does not prove that the farm itself works.
        false => lasts(DEAF_MS, Work::of_first_thread)?.map(|_| "did not answer".to_owned()),
    };
    if let Some(process) = process.as_ref().filter(|_| why.is_some()) {
        // The process may have ended just before this call.
        let _ = pidfd_send_signal(process, Signal::KILL);
    }
    if lasts(STILL_MS, work_of_farm)?.is_some() {
        let (name, pid) = (found.name.clone(), found.pid);
        return Err(FarmCommandError::Endless { name, pid }.into());
    }
    let guests = guests.map_or("its guests".to_owned(), |guests| counted(guests, "guest"));
    let how = why.map_or_else(String::new, |why| format!(", killed, because it {why}"));
    let seconds = clock.ms() as f64 / 1000.0;
    Ok(format!("{}: {guests} ended in {seconds:.1} s{how}\n", found.name))
}

/// A farm that must end, with its activity since the request.
struct Ending {
    still_max_ms: u64,
    began_ms: u64,
    /// Run and wait time of the farm at the last check.
    before_ns: Option<u64>,
    /// The time without activity.
    still: Chance,
    is_still: bool,
}

impl Ending {
    fn within(still_max_ms: u64, now_ms: u64) -> Ending {
        let still = Chance::since(now_ms);
        Ending { still_max_ms, began_ms: now_ms, before_ns: None, still, is_still: false }
    }

    fn why(&self) -> String {
        let seconds = self.still_max_ms / 1000;
        match self.is_still {
            true => format!("made no progress for {seconds} s"),
            false => format!("still existed after {} s", PATIENCE * seconds),
        }
    }

    /// Returns true if the wait continues. `work` is the total work of the farm and its guests
    /// until now. If the work is unknown, only the elapsed time counts.
    fn goes_on(&mut self, work: Option<Work>, now_ms: u64) -> bool {
        let done_ns = work.map(|work| work.run_ns.saturating_add(work.delay_ns));
        let before_ns = std::mem::replace(&mut self.before_ns, done_ns);
        // The total may also fall, because it does not include ended guests.
        let is_other =
            done_ns.zip(before_ns).is_some_and(|(now, then)| now.abs_diff(then) > WORK_NS);
        if is_other || work.is_some_and(|work| work.waits_for_disk) {
            self.still = Chance::since(now_ms);
        }
        self.is_still = self.still.look(now_ms, || None) >= self.still_max_ms;
        !self.is_still && now_ms.saturating_sub(self.began_ms) < PATIENCE * self.still_max_ms
    }
}

/// Returns the total work of a farm and of its child processes.
fn work_of_farm(pid: u32) -> Option<Work> {
    let children = procfs::children(pid).unwrap_or_default();
    let works = std::iter::once(pid).chain(children).filter_map(Work::of_process);
    works.reduce(|sum, one| Work {
        run_ns: sum.run_ns.saturating_add(one.run_ns),
        delay_ns: sum.delay_ns.saturating_add(one.delay_ns),
        waits_for_disk: sum.waits_for_disk || one.waits_for_disk,
        is_stopped: sum.is_stopped || one.is_stopped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::io::Write;
    use std::os::unix::net::UnixListener;
    use std::process::{Child, Command};
    use vm::{Deadline, Scratch};

    /// Starts a process, and makes a farm's directory for its process id. No farm answers at the
    /// directory's socket.
    fn process_with_directory(scratch: &Scratch, command: &mut Command) -> (Child, Running) {
        let dir = scratch.path().join("farm");
        fs::create_dir(&dir).unwrap();
        let lock = dir.join("lock");
        File::create(&lock).unwrap();
        let child = command.arg(&lock).args(["sleep", "1000"]).spawn().unwrap();
        let socket = dir.join(service::SOCKET);
        let found = Running { name: "shop".into(), pid: child.id(), socket };
        (child, found)
    }

    /// Checks a farm with this work once a second. Returns the second in which the wait ends.
    fn given_up(still_max_ms: u64, work: impl Fn(u64) -> Option<Work>) -> Option<u64> {
        let mut ending = Ending::within(still_max_ms, 0);
        (1..1_000).find(|second| !ending.goes_on(work(*second), second * 1_000))
    }

    #[test]
    fn farm_without_progress_towards_its_end_is_given_up() {
        let still = Some(Work { run_ns: 7, ..Work::default() });
        assert_eq!(given_up(STILL_MS, |_| still), Some(20));
        assert_eq!(given_up(DEAF_MS, |_| still), Some(2));
        assert_eq!(given_up(STILL_MS, |_| None), Some(20), "the work is unknown");
        let stops =
            |second: u64| Some(Work { run_ns: second.min(30) * 1_000_000_000, ..Work::default() });
        assert_eq!(given_up(STILL_MS, stops), Some(50), "the farm hangs after 30 s");
    }

    #[test]
    fn a_farm_without_progress_and_a_slow_farm_are_reported() {
        let why = |run_ns: u64| {
            let mut ending = Ending::within(STILL_MS, 0);
            let work = |second: u64| Some(Work { run_ns: second * run_ns, ..Work::default() });
            (1..1_000).find(|second| !ending.goes_on(work(*second), second * 1_000));
            ending.why()
        };
        assert_eq!(why(0), "made no progress for 20 s");
        assert_eq!(why(1 << 30), "still existed after 200 s");
    }

    #[test]
    fn farm_gets_more_time_if_it_works_or_the_host_is_busy() {
        let waits = |second: u64| Some(Work { delay_ns: second * 900_000_000, ..Work::default() });
        assert_eq!(given_up(STILL_MS, waits), Some(200), "waiting for a CPU");
        assert_eq!(given_up(DEAF_MS, waits), Some(20), "waiting, without an answer");
        let disk = Some(Work { waits_for_disk: true, ..Work::default() });
        assert_eq!(given_up(STILL_MS, |_| disk), Some(200), "waiting for swap");
        let guests = |second: u64| Some(Work { run_ns: (200 - second) << 30, ..Work::default() });
        assert_eq!(given_up(STILL_MS, |second| guests(second.min(199))), Some(200), "guests end");
    }

    #[test]
    fn finding_14_process_with_a_dead_farms_pid_is_not_killed() {
        let scratch = Scratch::new("down-other").unwrap();
        // The process has the lock's name among its arguments, but does not hold the lock.
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
    fn farm_without_process_descriptor_is_not_reported_as_ended() {
        let scratch = Scratch::new("down-unseen").unwrap();
        let (mut gone, found) =
            process_with_directory(&scratch, Command::new("sh").args(["-c", "exit"]));
        gone.wait().unwrap();
        assert!(end(&found).unwrap().contains("ended"), "no process holds the lock");
        // Another process holds the lock, and the farm's process id has no pidfd.
        let lock = File::open(found.socket.with_file_name("lock")).unwrap();
        lock.try_lock().unwrap();
        let told = end(&found).map_err(|error| error.to_string()).unwrap_err();
        assert!(told.contains("its end cannot be observed"), "{told}");
    }

    /// Starts a farm that has locked its directory and does not answer.
    fn deaf_farm(scratch: &Scratch) -> (Child, Running) {
        let (farm, found) = process_with_directory(scratch, Command::new("flock").arg("--no-fork"));
        let deadline = Deadline::after(Duration::from_secs(60));
        while rundir::holder(found.pid, &found.socket).unwrap().is_none() {
            assert!(deadline.remaining().is_some(), "the farm does not lock its directory");
            std::thread::yield_now();
        }
        (farm, found)
    }

    #[test]
    fn farm_of_another_version_is_ended_by_a_signal() {
        let scratch = Scratch::new("down-old").unwrap();
        let (mut farm, found) = deaf_farm(&scratch);
        let listener = UnixListener::bind(&found.socket).unwrap();
        let told = std::thread::scope(|scope| {
            let ending = scope.spawn(|| end(&found).map_err(|error| error.to_string()));
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"{\"error\": \"Ask {\\\"ps\\\": true}\"}\n").unwrap();
            let status = farm.wait().unwrap();
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
            ending.join().unwrap().unwrap()
        });
        assert!(told.contains("its guests ended") && !told.contains("killed"), "{told}");
    }

    #[test]
    fn finding_14_silent_farm_is_killed_by_its_descriptor() {
        let scratch = Scratch::new("down-dead").unwrap();
        let (mut farm, found) = deaf_farm(&scratch);
        let told = std::thread::scope(|scope| {
            let ending = scope.spawn(|| end(&found).map_err(|error| error.to_string()));
            let status = farm.wait().unwrap();
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
            ending.join().unwrap().unwrap()
        });
        assert!(
            told.contains("its guests ended") && told.contains("killed, because it did not answer"),
            "{told}"
        );
    }
}
