//! Signals for loops that wait in a poll.

use crate::Error;
use std::os::unix::net::UnixStream;

/// Returns a stream that becomes readable when one of these signals has arrived.
pub(crate) fn signal_pipe(signals: &[i32]) -> Result<UnixStream, Error> {
    let pipe = || -> std::io::Result<UnixStream> {
        let (receiver, sender) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        for signal in signals {
            signal_hook::low_level::pipe::register(*signal, sender.try_clone()?)?;
        }
        Ok(receiver)
    };
    pipe().map_err(|e| Error::step("Cannot collect signals", e))
}
