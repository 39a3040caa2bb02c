//! An HTTP response in transmission: its own head, and a body that many clients may share.

use std::io::{self, Write};
use std::rc::Rc;

use crate::write_some;

/// A response, and the number of bytes sent.
#[derive(Debug)]
pub struct Reply {
    head: Vec<u8>,
    body: Rc<str>,
    sent: usize,
}

impl Reply {
    /// Creates a response of which nothing is sent yet.
    pub fn new(head: Vec<u8>, body: Rc<str>) -> Reply {
        Reply { head, body, sent: 0 }
    }

    /// Writes as much as a non-blocking stream accepts now. Returns true if the whole response is
    /// sent.
    pub fn send(&mut self, mut stream: impl Write) -> io::Result<bool> {
        loop {
            let rest = match self.sent.checked_sub(self.head.len()) {
                None => &self.head[self.sent..],
                Some(sent) => &self.body.as_bytes()[sent..],
            };
            if rest.is_empty() {
                return Ok(true);
            }
            let (all, sent) = (rest.len(), write_some(&mut stream, rest)?);
            self.sent += sent;
            if sent < all {
                return Ok(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that accepts three bytes in one write, and no bytes in the next write.
    struct Slow(Vec<u8>, bool);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if !self.1 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let count = bytes.len().min(3);
            self.0.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn head_and_body_are_sent_in_pieces() {
        let mut reply = Reply::new(b"HEAD\r\n".to_vec(), "body".into());
        let mut slow = Slow(Vec::new(), false);
        let turns = std::iter::from_fn(|| (!reply.send(&mut slow).unwrap()).then_some(())).count();
        assert_eq!((slow.0.as_slice(), turns), (&b"HEAD\r\nbody"[..], 3));
        let mut head = Reply::new(b"HEAD\r\n".to_vec(), "".into());
        assert!(head.send(Vec::new()).unwrap());
    }
}
