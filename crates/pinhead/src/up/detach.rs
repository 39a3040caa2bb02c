//! `pinhead up FARM.toml --detach`: the farm in a process of its own, which outlives the terminal.
//!
//! ```text
//!   command ──starts──► farm-service, in a session of its own
//!      ▲                    │
//!      └── progress, JSON ──┘ through a pipe, until all guests are ready; then the command ends
//! ```
//!
//! If the command ends before that, the farm sees the pipe closed, and ends too.

use super::progress::{Progress, Step};
use super::serve::{self, Guests, Watcher};
use crate::Error;
use crate::args::ServiceArgs;
use std::io::{BufRead, BufReader, PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use vm::Clock;

/// A longer line is none of ours.
const LINE_MAX: u64 = 1 << 20;

/// Starts a farm that goes on, and waits until its guests are ready.
pub fn start(path: &Path, only: &[String], seconds: Option<u64>) -> Result<(), Error> {
    // What is wrong with the file is told here, before anything is started.
    serve::load(path, only)?;
    let wrong = |what: &'static str, e: std::io::Error| Error::step(what, e);
    let program = std::env::current_exe().map_err(|e| wrong("Where pinhead is", e))?;
    let path = std::path::absolute(path).map_err(|e| wrong("Where the file is", e))?;
    let mut command = Command::new(program);
    command.arg("farm-service").arg(path);
    for class in only {
        command.arg("--only").arg(class);
    }
    if let Some(seconds) = seconds {
        command.arg("--for").arg(seconds.to_string());
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| wrong("The farm's process cannot start", e))?;
    let Some(pipe) = child.stdout.take() else {
        return Err(Error::Message("The farm's process has no output".into()));
    };
    let outcome = relay(BufReader::new(pipe));
    match outcome {
        Some(Ok(text)) => {
            let _ = std::io::stdout().write_all(text.as_bytes());
            Ok(())
        }
        Some(Err(message)) => {
            let _ = child.wait();
            Err(Error::Message(message))
        }
        None => {
            let status = child.wait().map_err(|e| wrong("The farm's process is gone", e))?;
            Err(Error::Message(format!("The farm's process has ended before its start: {status}")))
        }
    }
}

/// Shows what the farm tells, up to its last word: how to reach it, or why it has failed.
fn relay(mut pipe: impl BufRead) -> Option<Result<String, String>> {
    let mut progress = Progress::shown();
    let clock = Clock::new();
    loop {
        let mut line = String::new();
        let read = std::io::Read::take(&mut pipe, LINE_MAX).read_line(&mut line);
        if !matches!(read, Ok(1..)) {
            progress.clear();
            return None;
        }
        let value = serde_json::from_str(&line).ok();
        match value.as_ref().and_then(Step::from_json) {
            Some(Step::Done(text)) => {
                progress.clear();
                return Some(Ok(text));
            }
            Some(Step::Failed(message)) => {
                progress.clear();
                return Some(Err(message));
            }
            Some(step) => drop(progress.tell(step, clock.ms())),
            None => {}
        }
    }
}

/// The farm's own process: what [`start`] has started.
pub fn service(args: &ServiceArgs) -> Result<(), Error> {
    // It fails only for who is the first of a group already, and then there is nothing to leave.
    let _ = rustix::process::setsid();
    let out = std::io::stdout().as_fd().try_clone_to_owned();
    let out: OwnedFd = out.map_err(|e| Error::step("No output", e))?;
    let pipe = PipeWriter::from(out);
    let mut last = pipe.try_clone().map_err(|e| Error::step("No output", e))?;
    silence_output();
    let outcome = serve::load(&args.farm, &args.only)
        .and_then(|farm| serve::run(Guests::Farm(farm), args.seconds, Watcher::Starter(pipe)));
    if let Err(error) = &outcome {
        // Nobody may be there any more to hear it.
        let step = Step::Failed(base::chain(error));
        let _ = last.write_all(format!("{}\n", step.to_json()).as_bytes());
    }
    outcome
}

/// The pipe is closed when the last copy of it is; this process's own output is one.
fn silence_output() {
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}
