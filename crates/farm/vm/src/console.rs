//! Reader of a guest's console. It reads all output, so that the guest never blocks on a full
//! console. The last part of the output is kept.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::{Deadline, Error};

/// Maximum console output kept, in bytes. A guest's whole boot writes some 40 KiB, even with a
/// verbose kernel.
pub const CONSOLE_BYTES_MAX: usize = 64 * 1024;

/// The last output of a console. The bytes come from the guest and must be escaped.
#[derive(Debug, Default)]
pub struct ConsoleLog {
    kept: Vec<u8>,
    /// Number of bytes that the console has written in all.
    end: u64,
}

impl ConsoleLog {
    /// Adds output of the console.
    pub fn push(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        self.end += bytes.len() as u64;
        let extra = self.kept.len().saturating_sub(CONSOLE_BYTES_MAX);
        self.kept.drain(..extra);
    }

    /// Returns the output that is kept.
    pub fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Returns the number of bytes that the console has written in all.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the output after the first `from` bytes, as far as it is kept.
    pub fn since(&self, from: u64) -> &[u8] {
        let behind = usize::try_from(self.end.saturating_sub(from)).unwrap_or(usize::MAX);
        &self.kept[self.kept.len() - behind.min(self.kept.len())..]
    }

    /// Returns true if the kept output contains `marker`.
    pub fn holds(&self, marker: &str) -> bool {
        self.kept.windows(marker.len().max(1)).any(|window| window == marker.as_bytes())
    }
}

/// The reader of one console. The reader's thread ends with the guest's QEMU.
#[derive(Clone, Debug)]
pub struct Console {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    log: ConsoleLog,
    closed: bool,
}

impl Console {
    /// Starts the reader's thread.
    pub fn start(mut stream: UnixStream) -> Result<Console, Error> {
        let shared = Arc::new(Shared::default());
        let console = Console { shared: Arc::clone(&shared) };
        let read = move || {
            let mut buffer = [0; 4096];
            loop {
                match stream.read(&mut buffer) {
                    Ok(count @ 1..) => shared.lock().log.push(&buffer[..count]),
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Ok(0) | Err(_) => break,
                }
                shared.changed.notify_all();
            }
            shared.lock().closed = true;
            shared.changed.notify_all();
        };
        let started = thread::Builder::new().name("console".to_owned()).spawn(read);
        started.map_err(|source| Error::Channel { channel: "console", source })?;
        Ok(console)
    }

    /// Returns the kept output for a terminal. The guest controls these bytes, so everything that
    /// is not text is replaced.
    pub fn text(&self) -> String {
        printable(self.shared.lock().log.kept())
    }

    /// Waits until the kept output contains `marker`.
    pub fn wait_for(&self, marker: &str, deadline: Deadline) -> Result<(), Error> {
        let mut state = self.shared.lock();
        while !state.log.holds(marker) {
            if state.closed {
                let source = std::io::ErrorKind::UnexpectedEof.into();
                return Err(Error::Channel { channel: "console", source });
            }
            let left = deadline.remaining().ok_or_else(|| {
                deadline.missed(format_args!("the text {marker:?} on the console"))
            })?;
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
