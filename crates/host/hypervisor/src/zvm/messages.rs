//! Special messages to the kernels of z/VM's users. Messages are sent one at a time, each by one
//! run of a program.
//!
//! ```text
//!   put(user, pages) ─► waiting: the newest of each user ─► PROGRAM smsg USER CMM SHRINK n
//!                                                                 │ its end, or its deadline
//!                                          turn() ─► Answer ◄─────┘
//! ```
//!
//! `CMM SHRINK n` sets the pool of the kernel's `cmm` module to `n` pages. A size of 0 returns the
//! whole pool. (`CMM RELEASE n` would add `n` more pages to the pool for a while.)

use super::name::UserId;
use crate::Id;
use base::plain;
use procfs::{Chance, Work};
use reactor::{PollFlags, PollSet};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::VecDeque;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

/// Timeout of the program. Only time in which the program could run counts. CP answers a message at
/// once, so a slower program hangs.
const DEADLINE_MS: u64 = 5_000;
/// Interval of the checks for the program's end if the kernel has no pidfd.
const LOOK_MS: u64 = 50;
/// Interval of the checks of the timeout if the kernel has a pidfd.
const TIME_LOOK_MS: u64 = 1_000;
/// Bytes read of a failed program's output.
const WORDS_BYTES: usize = 1_024;
const WORDS_SHOWN: usize = 120;

#[derive(Debug)]
struct Message {
    guest: Id,
    user: UserId,
    pages: u64,
}

/// The program that sends a message.
#[derive(Debug)]
struct Running {
    child: Child,
    /// Readable once the program has ended.
    descriptor: Option<OwnedFd>,
    message: Message,
    had: Chance,
    look_ms: u64,
    /// True if the program was killed after its timeout.
    is_ended: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Guest with the pool.
    pub(crate) guest: Id,
    pub(crate) pages: u64,
    /// Result of the message, with the reason for a failure.
    pub(crate) sent: Result<(), String>,
}

#[derive(Debug)]
pub(crate) struct Messages {
    program: PathBuf,
    waiting: VecDeque<Message>,
    running: Option<Running>,
}

impl Messages {
    /// Creates an empty queue with the program that sends messages.
    pub(crate) fn by(program: PathBuf) -> Messages {
        Messages { program, waiting: VecDeque::new(), running: None }
    }

    /// Queues a message, in place of a message that still waits for the same guest.
    pub(crate) fn put(&mut self, guest: Id, user: UserId, pages: u64) {
        match self.waiting.iter_mut().find(|message| message.guest == guest) {
            Some(message) => message.pages = pages,
            None => self.waiting.push_back(Message { guest, user, pages }),
        }
    }

    /// Drops the waiting messages of a guest that is gone.
    pub(crate) fn forget(&mut self, guest: Id) {
        self.waiting.retain(|message| message.guest != guest);
    }

    /// Adds the descriptor of the running program.
    pub(crate) fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        if let Some(descriptor) = self.running.as_ref().and_then(|one| one.descriptor.as_ref()) {
            set.add(0, descriptor.as_fd(), PollFlags::IN);
        }
    }

    /// Returns the time at which a turn is due even without readiness.
    pub(crate) fn next_ms(&self) -> u64 {
        match &self.running {
            // If a killed program is stuck in the kernel, this process can only wait for the
            // program's end.
            Some(running) if running.is_ended && running.descriptor.is_some() => u64::MAX,
            Some(running) => running.look_ms,
            None if self.waiting.is_empty() => u64::MAX,
            None => 0,
        }
    }

    /// Handles the end of one message, and begins the next.
    pub(crate) fn turn(&mut self, now_ms: u64) -> Vec<Answer> {
        let mut answers = Vec::new();
        if let Some(running) = &mut self.running {
            match running.look(now_ms) {
                Look::Runs => {}
                Look::Late => answers.push(running.answer(Err(format!(
                    "{} did not end within {} s",
                    self.program.display(),
                    DEADLINE_MS / 1000
                )))),
                Look::Ended(sent) => {
                    // The timeout was already reported.
                    if !running.is_ended {
                        answers.push(running.answer(sent));
                    }
                    self.running = None;
                }
            }
        }
        while self.running.is_none()
            && let Some(message) = self.waiting.pop_front()
        {
            let (guest, pages) = (message.guest, message.pages);
            match self.start(message, now_ms) {
                Ok(running) => self.running = Some(running),
                Err(error) => {
                    let why = format!("{} cannot be started: {error}", self.program.display());
                    answers.push(Answer { guest, pages, sent: Err(why) });
                }
            }
        }
        answers
    }

    fn start(&self, message: Message, now_ms: u64) -> std::io::Result<Running> {
        let child = Command::new(&self.program)
            .args(["smsg", message.user.as_str(), "CMM", "SHRINK", &message.pages.to_string()])
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let descriptor = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok();
        let had = Chance::since(now_ms);
        let mut running = Running { child, descriptor, message, had, look_ms: 0, is_ended: false };
        running.looks_again(now_ms);
        Ok(running)
    }
}

enum Look {
    Runs,
    /// The program was killed just now after its timeout.
    Late,
    Ended(Result<(), String>),
}

impl Running {
    fn looks_again(&mut self, now_ms: u64) {
        let is_told = self.descriptor.is_some();
        self.look_ms = now_ms + if is_told { TIME_LOOK_MS } else { LOOK_MS };
    }

    fn look(&mut self, now_ms: u64) -> Look {
        self.looks_again(now_ms);
        let pid = self.child.id();
        match self.child.try_wait() {
            Ok(Some(status)) if status.success() => Look::Ended(Ok(())),
            Ok(Some(status)) => Look::Ended(Err(self.why(status))),
            Err(error) => Look::Ended(Err(error.to_string())),
            Ok(None) if self.is_ended => Look::Runs,
            Ok(None) if self.had.look(now_ms, || Work::of_process(pid)) < DEADLINE_MS => Look::Runs,
            Ok(None) => {
                // The child has not been reaped, so its number cannot belong to another process.
                let _ = self.child.kill();
                self.is_ended = true;
                Look::Late
            }
        }
    }

    fn answer(&self, sent: Result<(), String>) -> Answer {
        Answer { guest: self.message.guest, pages: self.message.pages, sent }
    }

    /// Returns the reason for a failure, in CP's words if available.
    fn why(&mut self, status: ExitStatus) -> String {
        let words = [first_words(self.child.stdout.take()), first_words(self.child.stderr.take())];
        words.into_iter().flatten().next().unwrap_or_else(|| status.to_string())
    }
}

impl Drop for Running {
    /// Kills the program. Its message must not be sent later, possibly after a newer message.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
        }
    }
}

/// Returns the first line with text. The program has ended, so no more output will arrive.
fn first_words<T: Read + AsFd>(output: Option<T>) -> Option<String> {
    let mut output = output?;
    let flags = fcntl_getfl(&output).ok()?;
    fcntl_setfl(&output, flags | OFlags::NONBLOCK).ok()?;
    let mut bytes = [0; WORDS_BYTES];
    let count = output.read(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes[..count]);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(plain(line, WORDS_SHOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserId {
        UserId::of(name).unwrap()
    }

    /// Waits until the program has ended.
    fn wait(messages: &Messages) {
        let mut set = PollSet::new();
        messages.fds(&mut set);
        assert!(!set.is_empty(), "it runs");
        set.wait(30_000).unwrap();
    }

    /// Returns the next answers. The manager's time stops while the program runs.
    fn answers(messages: &mut Messages, now_ms: u64) -> Vec<Answer> {
        loop {
            let found = messages.turn(now_ms);
            if !found.is_empty() {
                return found;
            }
            wait(messages);
        }
    }

    #[test]
    fn messages_are_sent_in_order_and_only_newest_of_a_guest() {
        let mut messages = Messages::by("true".into());
        messages.put(Id(1), user("LINUX01"), 7);
        messages.put(Id(2), user("LINUX02"), 8);
        messages.put(Id(3), user("LINUX03"), 9);
        messages.put(Id(2), user("LINUX02"), 80);
        messages.forget(Id(3));
        assert_eq!(messages.next_ms(), 0);
        let sent = |guest, pages| vec![Answer { guest: Id(guest), pages, sent: Ok(()) }];
        assert_eq!(answers(&mut messages, 0), sent(1, 7));
        assert_eq!(answers(&mut messages, 0), sent(2, 80));
        assert_eq!((messages.turn(0), messages.next_ms()), (Vec::new(), u64::MAX));
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let mut messages = Messages::by("ls".into());
        messages.put(Id(1), user("A"), 1);
        let sent = answers(&mut messages, 0).remove(0).sent.unwrap_err();
        assert!(sent.starts_with("ls: ") && !sent.contains('\n'), "{sent}");
        let mut messages = Messages::by("false".into());
        messages.put(Id(1), user("A"), 1);
        let sent = answers(&mut messages, 0).remove(0).sent.unwrap_err();
        assert!(sent.contains('1'), "{sent}");
        let mut messages = Messages::by("/nonexistent/vmcp".into());
        messages.put(Id(1), user("A"), 1);
        let sent = messages.turn(0).remove(0).sent.unwrap_err();
        assert!(sent.starts_with("/nonexistent/vmcp cannot be started"), "{sent}");
    }

    #[test]
    fn hung_program_is_killed_before_next_message_is_sent() {
        // `yes` writes forever to a pipe without a reader.
        let mut messages = Messages::by("yes".into());
        messages.put(Id(1), user("A"), 1);
        assert_eq!((messages.turn(0), messages.next_ms()), (Vec::new(), 1_000));
        messages.put(Id(2), user("B"), 1);
        assert_eq!(messages.turn(100_000), [], "the machine was paused");
        assert_eq!(messages.next_ms(), 101_000);
        // The program may have waited for a CPU in that time.
        let mut seconds = 101..160;
        let late = seconds.find_map(|second| messages.turn(second * 1_000).pop());
        let late = late.expect("it hangs");
        assert!(late.guest == Id(1) && late.sent.unwrap_err().contains("did not end"));
        assert!(seconds.start > 104 && messages.next_ms() == u64::MAX);
        wait(&messages);
        let now_ms = seconds.start * 1_000;
        assert_eq!((messages.turn(now_ms), messages.next_ms()), (Vec::new(), now_ms + 1_000));
    }
}
