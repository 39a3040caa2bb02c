//! The baseline for the daemon: a process that does nothing but read its files.
//!
//! The process has one thread, one buffer, and files that stay open. Each second it reads each file
//! with one `pread`, and then sleeps until the next second. A program that reads these files once a
//! second cannot do less.

use crate::args;
use crate::clock::{now, sleep_until};
use crate::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::process::ExitCode;
use std::time::Duration;

/// Size of the buffer, larger than any of the files.
const BUFFER_BYTES: usize = 64 * 1024;

/// Interval of the daemon's rules.
const INTERVAL: Duration = Duration::from_secs(1);

/// Returns the command of a process that reads these files.
pub fn command(files: &[PathBuf]) -> Result<Command, Error> {
    let mut command = Command::new(args::this_program()?);
    command.arg("--preads").args(files);
    Ok(command)
}

/// Reads the files once a second until the process is ended from outside.
pub fn run(paths: &[PathBuf]) -> Result<ExitCode, Error> {
    let open = |path: &PathBuf| File::open(path).map_err(|e| Error::file(path, e));
    let files: Vec<File> = paths.iter().map(open).collect::<Result<_, _>>()?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut next = now();
    loop {
        for (file, path) in files.iter().zip(paths) {
            file.read_at(&mut buffer, 0).map_err(|e| Error::file(path, e))?;
        }
        next += INTERVAL;
        sleep_until(next);
    }
}
