//! What the daemon is compared with: a process that does nothing but read its files.
//!
//! One thread, one buffer, files that stay open. Each second one `pread` of each file,
//! as large as the kernel gives, and a sleep until the next: nobody who looks at these
//! files once a second can do less.

use crate::clock::{now, sleep_until};
use crate::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// More than any of the files is long.
const BUFFER_BYTES: usize = 64 * 1024;

/// The interval of the rules that the daemon runs beside us.
const INTERVAL: Duration = Duration::from_secs(1);

/// Reads the files once a second until it is ended from outside.
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
