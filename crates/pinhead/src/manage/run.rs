//! Process of the manager, with its signals and messages.

use super::HostArgs;
use crate::signals::signal_pipe;
use crate::tell::tell;
use crate::up::leftovers;
use crate::waiting::Task;
use crate::{Error, ManageError};
use manager::control::{Answer, Ask, Error as ControlError, ask};
use manager::keeper::Ended;
use manager::{Manager, Options, Signals, Turn};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Read;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;
use vm::Deadline;

/// Maximum time until the manager of a `pinhead up` responds, and then until that manager ends.
const YIELD_MAX: Duration = Duration::from_secs(5);
const END_MAX: Duration = Duration::from_secs(30);
/// Timeout of one request to that manager, and time until the next request.
const YIELD_PATIENCE: Duration = Duration::from_secs(1);
const YIELD_AGAIN: Duration = Duration::from_secs(3);
/// Interval between two checks of that manager's socket.
const YIELD_LOOK: Duration = Duration::from_millis(50);

/// Runs the manager until a signal or its time limit ends it. After that, leftovers of dead farms
/// are undone, because KSM settings could not be restored while the manager controlled KSM.
pub fn run(args: &HostArgs) -> Result<(), Error> {
    let is_dry = is_dry(args);
    let managed = manage(args, is_dry);
    if !is_dry {
        leftovers::sweep_all();
    }
    managed
}

/// Returns true if the options or the settings order a dry run.
fn is_dry(args: &HostArgs) -> bool {
    let loaded = || manager::check(args.config.as_deref(), options(args));
    args.dry_run || loaded().is_ok_and(|loaded| !loaded.settings.policy.act)
}

fn manage(args: &HostArgs, is_dry: bool) -> Result<(), Error> {
    // Signals are handled before guests are changed, so that the manager can undo its changes after
    // any interrupt.
    let stop = signal_pipe(&[SIGINT, SIGTERM])?;
    let mut reload = signal_pipe(&[SIGHUP])?;
    let mut manager = start(args, is_dry)?;
    loop {
        let signals = Signals { stop: stop.as_fd(), reload: reload.as_fd() };
        let turn = manager.turn(&signals).map_err(Error::Host)?;
        if turn == Turn::Reload && reload.read(&mut [0; 16]).is_ok_and(|count| count > 0) {
            manager.reload_and_report();
        }
        manager.take_notices().iter().for_each(|text| log(text));
        if turn == Turn::Stop || manager.is_over() {
            break;
        }
    }
    manager.finish().iter().for_each(|text| log(text));
    Ok(())
}

pub(super) fn options(args: &HostArgs) -> Options {
    Options {
        dry_run: args.dry_run,
        for_ms: args.seconds.map(|seconds| seconds.saturating_mul(1000)),
        budget: args.budget,
        for_farms: false,
    }
}

/// Starts the manager. If the manager of a `pinhead up` has the same socket, that manager yields.
/// It does not yield to a dry run, which manages nothing.
fn start(args: &HostArgs, is_dry: bool) -> Result<Manager, Error> {
    let mut deadline = Deadline::after(YIELD_MAX);
    let mut asked: Option<Deadline> = None;
    let mut task = None;
    loop {
        let error = match Manager::start(args.config.clone(), options(args)) {
            Err(manager::Error::Control(error @ ControlError::Taken { .. })) => error,
            started => return started.map_err(to_error),
        };
        // The request is repeated, because the manager of another `pinhead up` may have started
        // meanwhile.
        let is_due = asked.as_ref().is_none_or(|wait| wait.remaining().is_none());
        let is_refused = match &error {
            ControlError::Taken { path, .. } if is_due && !is_dry => {
                asked = Some(Deadline::after(YIELD_AGAIN));
                match ask(path, &Ask::Yield, YIELD_PATIENCE) {
                    Ok(Answer::Yield {}) => {
                        let what = "waiting until the manager of `pinhead up` has ended";
                        task.get_or_insert_with(|| Task::within(what, END_MAX));
                        deadline = Deadline::after(END_MAX);
                        false
                    }
                    // A manager does not serve its socket while it starts or ends.
                    Err(error) => matches!(error, ControlError::Refused(_)),
                    Ok(_) => true,
                }
            }
            _ => is_dry,
        };
        if is_refused || deadline.remaining().is_none() {
            return Err(Error::Host(manager::Error::Control(error)));
        }
        // The other manager holds the lock of its socket until it has ended.
        std::thread::sleep(YIELD_LOOK);
    }
}

/// Runs the keeper, which holds the lease of the manager that started it.
pub fn keep(parked: Option<PathBuf>) -> Result<(), Error> {
    let options = manager::keeper::Options { parked, ..Default::default() };
    // A signal to all processes of this name is meant for the manager. The keeper must survive such
    // a signal, because its work begins after the manager's end.
    let _caught = signal_pipe(&[SIGINT, SIGTERM, SIGHUP])?;
    let ended = manager::keeper::run(std::io::stdin(), &options, &mut log);
    match ended {
        Ok(Ended::Released | Ended::Restored) => Ok(()),
        Ok(Ended::Partly) => Err(ManageError::PartlyRestored.into()),
        Err(error) => Err(Error::step("The keeper cannot continue", error)),
    }
}

/// Converts an error of the manager. All faults of a settings file are shown at once.
pub(super) fn to_error(error: manager::Error) -> Error {
    if let manager::Error::Settings(settings) = &error
        && let Some(faults) = settings.faults()
    {
        return ManageError::Settings { faults }.into();
    }
    Error::Host(error)
}

/// Writes a message of the manager to standard error, which the service's log stores.
fn log(text: &str) {
    tell("pinhead host", text);
}
