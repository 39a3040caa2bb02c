//! Answers on their way to clients that do not read them at once.
//!
//! A table of a thousand guests is larger than a socket's buffer. What the buffer does not take
//! waits here, and nobody waits for the client.

use std::collections::VecDeque;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use reactor::{Event, Lookup, Outbox, PollSet};
use rustix::event::PollFlags;
use serde_json::Value;

/// Answers that wait at once. Of more, the one that has waited longest is given up: a client that
/// has stopped reading costs nobody else an answer.
const REPLIES_MAX: usize = 64;

/// All answers on their way.
#[derive(Debug, Default)]
pub(super) struct Replies(VecDeque<Unsent>);

/// What a client has not taken of its answer yet.
#[derive(Debug)]
struct Unsent {
    client: UnixStream,
    bytes: Outbox,
}

impl Replies {
    /// Sends a line, as far as the client takes it now; the rest as it reads on.
    pub(super) fn send_line(&mut self, client: UnixStream, value: &Value) {
        self.send(client, line(value).as_bytes());
    }

    /// The same with any bytes. The client's stream does not block.
    pub(super) fn send(&mut self, client: UnixStream, bytes: &[u8]) {
        let mut unsent = Unsent { client, bytes: Outbox::default() };
        unsent.bytes.push(bytes);
        if unsent.is_over() {
            return;
        }
        if self.0.len() >= REPLIES_MAX
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.give_up();
        }
        self.0.push_back(unsent);
    }

    pub(super) fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        for (key, unsent) in (0..).zip(&self.0) {
            set.add(key, unsent.client.as_fd(), PollFlags::OUT);
        }
    }

    /// Goes on where clients have read.
    pub(super) fn turn(&mut self, ready: &[Event]) {
        let mut ready = Lookup::new(ready);
        let mut keys = 0..;
        self.0.retain_mut(|unsent| {
            let is_ready = keys.next().is_some_and(|key| !ready.flags(key).is_empty());
            !(is_ready && unsent.is_over())
        });
    }
}

impl Unsent {
    /// Sends what is taken. True when nothing is left, or nobody who would take it.
    fn is_over(&mut self) -> bool {
        self.bytes.send(&self.client).is_err() || self.bytes.is_empty()
    }

    /// The connection may have a second handle, as a manager's lease: its client has to see that
    /// half an answer is all it gets.
    fn give_up(self) {
        let _ = self.client.shutdown(Shutdown::Both);
    }
}

/// A line of an answer, with its end.
pub(super) fn line(value: &Value) -> String {
    format!("{value}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn client() -> (UnixStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (ours, theirs)
    }

    #[test]
    fn an_answer_comes_whole_however_slowly_it_is_read() {
        let (ours, mut theirs) = client();
        let all: Vec<u8> = (0..=255).cycle().take(2 << 20).collect();
        let mut replies = Replies::default();
        replies.send(ours, &all);
        assert_eq!(replies.0.len(), 1);
        let (mut came, mut chunk) = (Vec::new(), [0; 1 << 16]);
        while came.len() < all.len() {
            let count = theirs.read(&mut chunk).unwrap();
            came.extend_from_slice(&chunk[..count]);
            let mut set = PollSet::new();
            replies.fds(set.owner(7));
            let ready = set.wait(0).unwrap();
            replies.turn(ready.of(7));
        }
        assert!(came == all && replies.0.is_empty());
        assert_eq!(theirs.read(&mut chunk).unwrap(), 0, "and ends");
    }

    #[test]
    fn of_too_many_the_one_that_has_waited_longest_is_given_up() {
        let mut replies = Replies::default();
        let bytes = vec![b'x'; 1 << 20];
        let mut theirs: Vec<UnixStream> = (0..REPLIES_MAX + 1)
            .map(|_| {
                let (ours, theirs) = client();
                replies.send(ours, &bytes);
                theirs
            })
            .collect();
        assert_eq!(replies.0.len(), 64);
        let mut got = Vec::new();
        theirs[0].read_to_end(&mut got).unwrap();
        assert!(got.len() < bytes.len());
        theirs[1].set_nonblocking(true).unwrap();
        let more = theirs[1].read_to_end(&mut got);
        assert!(more.is_err(), "the others still have theirs coming");
    }
}
