//! Something that one thread tells another one's poll set: that it has happened, not what.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// The end that hears of it.
#[derive(Debug)]
pub(crate) struct News(UnixStream);

/// The end that tells.
#[derive(Debug)]
pub(crate) struct Teller(UnixStream);

/// Both ends. Neither ever waits.
pub(crate) fn news() -> io::Result<(News, Teller)> {
    let (news, teller) = UnixStream::pair()?;
    news.set_nonblocking(true)?;
    teller.set_nonblocking(true)?;
    Ok((News(news), Teller(teller)))
}

impl News {
    /// What becomes readable when there is some.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Forgets what there was. Whether there may be more some day: the other end is there.
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
        // If it is full, there is something to be read.
        let _ = (&self.0).write(&[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_are_heard_once_and_the_end_of_the_teller_is_seen() {
        let (news, teller) = news().unwrap();
        assert!(news.drain(), "nothing has happened");
        (0..1_000_000).for_each(|_| teller.tell());
        assert!(news.drain());
        drop(teller);
        assert!(!news.drain());
    }
}
