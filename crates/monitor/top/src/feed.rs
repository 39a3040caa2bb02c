//! Thread that queries the manager once a second. If the manager does not respond, the keys still
//! work.

use super::sample;
use crate::model::Model;
use manager::control::Whose;
use rustix::event::Timespec;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time between two requests to the manager. The manager takes samples at the same interval.
pub(super) const TURN: Duration = Duration::from_secs(1);

/// Maximum number of responses that wait while a guest's console has the terminal. While this many
/// wait, no further responses are requested.
const WAITING: usize = 4;

type Answer = Result<sample::Sample, String>;

#[derive(Debug)]
pub(super) struct Feed {
    answers: Receiver<Answer>,
    waker: UnixStream,
    /// Guest of which the processes are requested. The processes of all guests would be ten times
    /// as much data.
    looked_at: Arc<Mutex<Option<String>>>,
}

impl Feed {
    /// Starts the thread. The thread ends after `count` requests, with the process, or once the
    /// receiver is dropped.
    pub(super) fn start(manager: sample::Manager, count: Option<u64>) -> std::io::Result<Feed> {
        let (sender, answers) = sync_channel(WAITING);
        let (waker, mut ours) = UnixStream::pair()?;
        let looked_at = Arc::new(Mutex::new(None));
        let wanted = Arc::clone(&looked_at);
        waker.set_nonblocking(true)?;
        let work = move || {
            let mut left = count.unwrap_or(u64::MAX);
            while left > 0 {
                left -= 1;
                let guest = lock(&wanted).clone();
                let whose = guest.map_or(Whose::Nobody, Whose::Guest);
                let one = sample::ask(&manager, whose).map_err(|error| error.to_string());
                if sender.send(one).is_err() || ours.write_all(&[0]).is_err() {
                    return;
                }
                let_pass(TURN);
            }
        };
        std::thread::Builder::new().name("feed".to_owned()).spawn(work)?;
        Ok(Feed { answers, waker, looked_at })
    }

    /// Sets the guest of which the processes are requested, from the next request on.
    pub(super) fn look_at(&self, guest: Option<&str>) {
        let mut looked_at = lock(&self.looked_at);
        if looked_at.as_deref() != guest {
            *looked_at = guest.map(str::to_owned);
        }
    }

    /// Returns a descriptor that is readable when a response has arrived.
    pub(super) fn waker(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }

    /// Passes responses to the model. Returns false if no more responses will come.
    pub(super) fn drain(&mut self, model: &mut Model) -> bool {
        // The channel counts the responses. This read only clears the waker, and detects that the
        // waker was closed.
        let _ = self.waker.read(&mut [0; 64]);
        loop {
            match self.answers.try_recv() {
                Ok(Ok(sample)) => model.take(sample),
                Ok(Err(trouble)) => model.trouble = Some(trouble),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }
}

/// Sleeps for a time. A signal can end the program during the sleep.
pub(super) fn let_pass(time: Duration) {
    let timeout =
        Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    let _ = rustix::event::poll(&mut [], Some(&timeout));
}

fn lock(looked_at: &Mutex<Option<String>>) -> MutexGuard<'_, Option<String>> {
    looked_at.lock().unwrap_or_else(PoisonError::into_inner)
}
