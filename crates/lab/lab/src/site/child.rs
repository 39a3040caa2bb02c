//! A pinhead program as a child, which ends with this process.

use crate::Error;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use vm::{Deadline, Process};

/// Time limit for a child to exit on request. The child may first have to give memory back to
/// guests. After this time the child is killed.
const END: Duration = Duration::from_secs(60);

/// A running child. Dropping this value ends the child, and waits for its exit.
#[derive(Debug)]
pub(super) struct Child {
    what: &'static str,
    process: Process,
}

impl Child {
    pub(super) fn start<'a>(
        what: &'static str,
        program: &Path,
        args: impl IntoIterator<Item = &'a OsStr>,
    ) -> Result<Child, Error> {
        let mut command = Command::new(program);
        command.args(args);
        let process = Process::start(command, Vec::new()).map_err(|error| {
            Error::Failed(format!("{} cannot be started: {error}", program.display()))
        })?;
        Ok(Child { what, process })
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the beginning of the child's standard error.
    pub(super) fn stderr(&self) -> String {
        self.process.stderr().trim_end().to_owned()
    }

    pub(super) fn check(&mut self) -> Result<(), Error> {
        let what = self.what;
        match self.process.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                Err(Error::Failed(format!("{what} has ended with {status}: {}", self.stderr())))
            }
            Err(error) => Err(Error::Failed(format!("The state of {what} is unknown: {error}"))),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let pid = self.id().to_string();
        let _ = Command::new("kill").args(["-s", "TERM", &pid]).status();
        // A child that does not exit is killed when `Process` is dropped.
        let _ = self.process.wait(Deadline::after(END));
    }
}
