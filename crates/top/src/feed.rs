//! Asks the manager once a second, in a thread of its own: a manager that does not answer
//! must not hold up the keys.

use super::sample;
use crate::model::Model;
use manager::control::Whose;
use rustix::event::Timespec;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time between two questions to the manager: it looks as often.
pub(super) const TURN: Duration = Duration::from_secs(1);

type Answer = Result<sample::Sample, String>;

/// What comes from the manager.
#[derive(Debug)]
pub(super) struct Feed {
    answers: Receiver<Answer>,
    waker: UnixStream,
    /// The guest whose processes are wanted: those of all are ten times as much data.
    looked_at: Arc<Mutex<Option<String>>>,
}

impl Feed {
    /// Starts to ask; ends by itself after so many questions. The thread ends with the
    /// process, or when nobody listens any more.
    pub(super) fn start(manager: sample::Manager, count: Option<u64>) -> std::io::Result<Feed> {
        let (sender, answers) = channel();
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

    /// From the next question on the processes of this guest are asked for.
    pub(super) fn look_at(&self, guest: Option<&str>) {
        let mut looked_at = lock(&self.looked_at);
        if looked_at.as_deref() != guest {
            *looked_at = guest.map(str::to_owned);
        }
    }

    /// Can be read when there is something to take.
    pub(super) fn waker(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }

    /// Gives the model what has come; false if nothing more will.
    pub(super) fn drain(&mut self, model: &mut Model) -> bool {
        // The channel counts them; it also shows that a waker is closed.
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

/// Lets time pass. Whoever ends the program in the meantime ends it.
pub(super) fn let_pass(time: Duration) {
    let timeout =
        Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    let _ = rustix::event::poll(&mut [], Some(&timeout));
}

fn lock(looked_at: &Mutex<Option<String>>) -> MutexGuard<'_, Option<String>> {
    looked_at.lock().unwrap_or_else(PoisonError::into_inner)
}
