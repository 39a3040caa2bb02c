//! A wake-up for another thread's poll set. The wake-up carries no data.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// The receiving end.
#[derive(Debug)]
pub(crate) struct News(UnixStream);

/// The sending end.
#[derive(Debug)]
pub(crate) struct Teller(UnixStream);

/// Creates both ends, which never block.
pub(crate) fn news() -> io::Result<(News, Teller)> {
    let (news, teller) = UnixStream::pair()?;
    news.set_nonblocking(true)?;
    teller.set_nonblocking(true)?;
    Ok((News(news), Teller(teller)))
}

impl News {
    /// Returns the descriptor that is readable after a wake-up.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Clears the readiness. Returns false once the other end is closed.
    pub(crate) fn drain(&self) -> bool {
        loop {
            match (&self.0).read(&mut [0; 256]) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(_) => return true,
            }
        }
    }
}

impl Teller {
    pub(crate) fn tell(&self) {
        // If the buffer is full, the other end is readable already. A failed write is therefore
        // ignored.
        let _ = (&self.0).write(&[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_ups_are_received_once_and_the_senders_end_is_seen() {
        let (news, teller) = news().unwrap();
        assert!(news.drain(), "nothing has happened");
        (0..1_000_000).for_each(|_| teller.tell());
        assert!(news.drain());
        drop(teller);
        assert!(!news.drain());
    }
}
