//! A guest's console: always read, so that the guest never waits for a reader, and kept in part.

use std::collections::VecDeque;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::{Deadline, Error};

/// How much of the console is kept: its last words. A guest's whole boot is some 40 KiB even when
/// its kernel is not quiet.
pub const CONSOLE_BYTES_MAX: usize = 64 * 1024;

/// The reader of one console. Its thread ends with the guest's QEMU.
#[derive(Clone, Debug)]
pub struct Console {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    log: Mutex<Log>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Log {
    kept: VecDeque<u8>,
    closed: bool,
}

impl Console {
    /// Starts to read.
    pub fn start(mut stream: UnixStream) -> Result<Console, Error> {
        let shared = Arc::new(Shared::default());
        let console = Console { shared: Arc::clone(&shared) };
        thread::Builder::new()
            .name("console".to_owned())
            .spawn(move || {
                let mut buffer = [0; 4096];
                loop {
                    match stream.read(&mut buffer) {
                        Ok(0) => break,
                        Ok(count) => shared.append(&buffer[..count]),
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(_) => break,
                    }
                }
                shared.lock().closed = true;
                shared.changed.notify_all();
            })
            .map_err(|source| Error::Channel { channel: "console", source })?;
        Ok(console)
    }

    /// The last words, with everything that is not text replaced: they come from a guest.
    pub fn text(&self) -> String {
        let log = self.shared.lock();
        printable(log.kept.iter().copied().collect::<Vec<_>>().as_slice())
    }

    /// Waits until the last words hold `marker`.
    pub fn wait_for(&self, marker: &str, deadline: Deadline) -> Result<(), Error> {
        let mut log = self.shared.lock();
        loop {
            let found = log
                .kept
                .make_contiguous()
                .windows(marker.len().max(1))
                .any(|window| window == marker.as_bytes());
            if found {
                return Ok(());
            }
            if log.closed {
                let source = std::io::ErrorKind::UnexpectedEof.into();
                return Err(Error::Channel { channel: "console", source });
            }
            let left = deadline
                .remaining()
                .ok_or_else(|| deadline.missed(format_args!("{marker:?} on the console")))?;
            let waited = self.shared.changed.wait_timeout(log, left);
            log = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, bytes: &[u8]) {
        let mut log = self.lock();
        log.kept.extend(bytes);
        let excess = log.kept.len().saturating_sub(CONSOLE_BYTES_MAX);
        log.kept.drain(..excess);
        drop(log);
        self.changed.notify_all();
    }
}

/// Text that cannot steer a terminal.
fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .filter(|&c| c != '\r')
        .map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::Duration;

    #[test]
    fn markers_are_found_across_writes_and_the_log_stays_bounded() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let console = Console::start(ours).unwrap();
        let long = Deadline::after(Duration::from_secs(60));
        theirs.write_all(b"boot\r\n\x1b[31mguest is").unwrap();
        console.wait_for("guest is", long).unwrap();
        theirs.write_all(b" up\n").unwrap();
        console.wait_for("guest is up", long).unwrap();
        assert_eq!(console.text(), "boot\n\u{fffd}[31mguest is up\n");

        theirs.write_all(&vec![b'x'; 3 * CONSOLE_BYTES_MAX]).unwrap();
        theirs.write_all(b"end").unwrap();
        console.wait_for("end", long).unwrap();
        assert_eq!(console.text().len(), CONSOLE_BYTES_MAX);
        drop(theirs);
        let error = console.wait_for("never", long).unwrap_err();
        assert!(matches!(error, Error::Channel { .. }), "a closed console is not waited for");
    }
}
