//! `pinhead up FARM.toml --detach`: the farm in a process of its own, which outlives the terminal.
//!
//! ```text
//!   command ──starts──► farm-service, in a session of its own
//!      ▲                    │
//!      └── progress, JSON ──┘ through a pipe, until all guests are ready; then the command ends
//! ```
//!
//! If the command ends earlier, the farm notices the closed pipe and ends too.

use super::progress::{Progress, Step};
use super::serve::{self, Guests, Run, Watcher};
use crate::args::{ServiceArgs, UpArgs};
use crate::tell::own_name;
use crate::terminal::{fitted, width};
use crate::{Error, UpError};
use serde_json::json;
use std::io::{BufRead, BufReader, PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts a farm in the background, and waits until its guests are ready.
pub fn start(path: &Path, args: &UpArgs) -> Result<(), Error> {
    // Errors in the file are reported here, before any process is started.
    serve::load(path, &args.only)?;
    let wrong = |what: &'static str, e: std::io::Error| Error::step(what, e);
    let program = std::env::current_exe().map_err(|e| wrong("Cannot find the program", e))?;
    let path = std::path::absolute(path).map_err(|e| wrong("Cannot find the file", e))?;
    let mut command = Command::new(program);
    // The farm names this program as the user did.
    command.arg0(own_name()).arg("farm-service").arg(path);
    for class in &args.only {
        command.arg("--only").arg(class);
    }
    if let Some(seconds) = args.seconds {
        command.arg("--for").arg(seconds.to_string());
    }
    if args.no_manager {
        command.arg("--no-manager");
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| wrong("The farm's process cannot start", e))?;
    let Some(pipe) = child.stdout.take() else {
        return Err(UpError::NoOutput.into());
    };
    match relay(BufReader::new(pipe)) {
        Some(Ok(text)) => {
            let mut stdout = std::io::stdout();
            let _ = stdout.write_all(fitted(&text, width(&stdout)).as_bytes());
            Ok(())
        }
        Some(Err(message)) => {
            let _ = child.wait();
            Err(UpError::Process(message).into())
        }
        None => {
            let status =
                child.wait().map_err(|e| wrong("Cannot wait for the farm's process", e))?;
            Err(UpError::EndedEarly { status }.into())
        }
    }
}

/// Shows the farm's progress until the start succeeds or fails. Returns the guests' addresses, or
/// the reason for the failure.
fn relay(pipe: impl BufRead) -> Option<Result<String, String>> {
    let mut progress = Progress::shown();
    let lines = pipe.lines().map_while(Result::ok);
    let outcome = lines.filter_map(|line| serde_json::from_str(&line).ok()).find_map(|step| {
        match step {
            Step::Done { done } => return Some(Ok(done)),
            Step::Failed { failed } => return Some(Err(failed)),
            Step::Warned { warned } => progress.warn(&warned),
            step => _ = progress.report(step),
        };
        None
    });
    progress.clear();
    outcome
}

/// Runs the farm in the process that [`start`] has started.
pub fn service(args: &ServiceArgs) -> Result<(), Error> {
    // The call fails only if this process already leads a process group. Its session then stays the
    // same.
    let _ = rustix::process::setsid();
    let out = std::io::stdout().as_fd().try_clone_to_owned();
    let out: OwnedFd = out.map_err(|e| Error::step("No output", e))?;
    let pipe = PipeWriter::from(out);
    let mut last = pipe.try_clone().map_err(|e| Error::step("No output", e))?;
    silence_output();
    let run = Run { seconds: args.seconds, is_managed: !args.no_manager };
    let outcome = serve::load(&args.farm, &args.only)
        .and_then(|farm| serve::run(Guests::Farm(farm), &run, Watcher::Starter(pipe)));
    if let Err(error) = &outcome {
        // The command that reads the pipe may have ended.
        let step = Step::Failed { failed: base::chain(error) };
        let _ = last.write_all(format!("{}\n", json!(step)).as_bytes());
    }
    outcome
}

/// Closes this process's output, which is a copy of the pipe's writing end. The reader sees the end
/// of the pipe once all copies are closed.
fn silence_output() {
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}
