//! A measured process.

use crate::clock::{now, sleep_until};
use crate::error::Error;
use crate::meter::{self, Used};
use crate::sys;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time limit for a process to exit on request.
const PATIENCE: Duration = Duration::from_secs(2);

/// A running process. Dropping this value ends it.
#[derive(Debug)]
pub struct Subject {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Subject {
    /// Starts a program without input and output. Its standard error goes to the file `log`.
    pub fn start(name: &'static str, command: &mut Command, log: &Path) -> Result<Subject, Error> {
        Subject::spawn(name, command.stdin(Stdio::null()).stdout(Stdio::null()), log)
    }

    /// Starts a program with the command's own input and output.
    pub fn spawn(name: &'static str, command: &mut Command, log: &Path) -> Result<Subject, Error> {
        let errors = File::create(log).map_err(|e| Error::file(log, e))?;
        command.stderr(errors);
        let program = PathBuf::from(command.get_program());
        let child = sys::spawn(command).map_err(|source| Error::Start { program, source })?;
        Ok(Subject { name, child, log: log.into() })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn used(&mut self) -> Result<Used, Error> {
        self.alive()?;
        meter::used(self.child.id())
    }

    pub fn resident_kib(&mut self) -> Result<u64, Error> {
        self.alive()?;
        meter::resident_kib(self.child.id())
    }

    pub fn open_files(&mut self, below: &[&Path]) -> Result<Vec<PathBuf>, Error> {
        self.alive()?;
        meter::open_files(self.child.id(), below)
    }

    fn alive(&mut self) -> Result<(), Error> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                let said = std::fs::read_to_string(&self.log).unwrap_or_default();
                let said = said.lines().last().unwrap_or("it said nothing").into();
                Err(Error::Ended { name: self.name, status: status.to_string(), said })
            }
            Err(source) => Err(Error::file(Path::new(self.name), source)),
        }
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let deadline = now() + PATIENCE;
        // Until try_wait reports the end, the process is not reaped. The id therefore cannot belong
        // to another process.
        if matches!(self.child.try_wait(), Ok(None)) {
            sys::ask_to_end(&self.child);
        }
        while matches!(self.child.try_wait(), Ok(None)) && now() < deadline {
            sleep_until(now() + Duration::from_millis(10));
        }
        // The signal has no effect on a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_end_is_reported_with_the_last_words() {
        let dir = crate::error::scratch("subject").unwrap();
        let log = dir.join("log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo one >&2; echo no pool >&2; exit 3"]);
        let mut subject = Subject::start("sh", &mut command, &log).unwrap();
        subject.child.wait().unwrap();
        let error = subject.used().unwrap_err().to_string();
        assert!(error.contains("exit status: 3; no pool"), "{error}");
    }

    #[test]
    fn a_process_ends_when_its_value_is_dropped() {
        let dir = crate::error::scratch("ends").unwrap();
        let log = dir.join("log");
        let subject = Subject::start("cat", Command::new("sleep").arg("600"), &log).unwrap();
        let proc = PathBuf::from(format!("/proc/{}", subject.child.id()));
        assert!(proc.exists());
        drop(subject);
        assert!(!proc.exists());
    }
}
