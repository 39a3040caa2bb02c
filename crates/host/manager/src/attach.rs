//! Handover of guests by `pinhead up`, which holds the ports of its guests' daemons. On a manager's
//! request `pinhead up` hands over ports and balloons. It takes both back when the manager's
//! connection closes for any reason.

use crate::control::{
    Answer, Ask, AskNextTimer, NextTimer, Request, decode_answer, decode_message, encode_message,
    encode_request,
};
use hypervisor::{Found, Owner};
use reactor::{Budget, Lines, PollSet, Received};
use rustix::event::PollFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the control socket of `pinhead up`, in the directory of its guests' sockets.
const SOCKET: &str = "control";
/// Bytes that a `pinhead up` may send at once, enough for a response with the names of thousands of
/// guests. Any user may listen on such a socket. Without the limit, an endless sender would keep
/// the manager reading.
const ANSWER_MAX: u64 = 256 * 1024;
/// Bytes per second that a `pinhead up` may send after its first response. These bytes are requests
/// for the next timers of guests that `pinhead up` is about to park.
const BYTES_A_SECOND: u64 = 16 * 1024;
/// Minimum cost of a read, in bytes of the budget. Without a minimum, a sender of single bytes
/// would keep the manager reading.
const READ_COST: u64 = 256;
/// Maximum size of an unfinished request, in bytes.
const REQUEST_MAX: usize = 4 * 1024;

/// Time after which a missing response from `pinhead up` is reported. `pinhead up` normally
/// responds within a turn of its loop.
const ANSWER_MS: u64 = 5_000;
/// Time after which a failed or refused request is repeated.
const AGAIN_MS: u64 = 10_000;
/// Shortest interval between two complaints about a user's guests. Without this limit, a user's
/// processes could fill the log, by handovers and refusals in any number of directories.
const COMPLAINTS_MS: u64 = 10 * 60 * 1_000;
/// Maximum number of farms that are asked for unknown guests, for each user named in `[sources]
/// users`.
const FARMS_OF_OTHERS: usize = 8;
/// Maximum length of a class's name, in characters.
const CLASS_MAX: usize = 64;
/// Maximum length of a reported reason, in characters.
const REASON_MAX: usize = 200;

/// Classes of the guests of a `pinhead up`, by guest name.
pub type Classes = Arc<BTreeMap<String, String>>;

/// State of the handover of guests by `pinhead up`, which keeps ports and balloons until then. A
/// missing response is no consent: two managers could otherwise move the same balloon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lent {
    /// The guest was not started by a `pinhead up`, or this manager changes nothing.
    #[default]
    NotNeeded,
    /// `pinhead up` has not responded, or has refused.
    No,
    /// The guests are handed over.
    Yes,
}

/// The connections to all `pinhead up` processes with managed guests.
#[derive(Debug, Default)]
pub struct Attachments {
    /// Connections by the directory of their socket.
    all: BTreeMap<PathBuf, Attachment>,
    /// Time of the last complaint about each user's guests.
    told: BTreeMap<Owner, u64>,
}

#[derive(Debug)]
struct Attachment {
    owner: Owner,
    lent: Lent,
    classes: Classes,
    open: Option<Connection>,
    /// Time of the next request, or of the report of a missing response.
    due_ms: u64,
    is_reported: bool,
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    lines: Lines,
    /// Bytes that `pinhead up` may send now.
    budget: Budget,
}

/// Results of a turn: changed handovers, requested timers and complaints.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Directories with the state of their handover.
    pub lent: Vec<(PathBuf, Lent)>,
    /// Directories with the classes of their guests.
    pub classes: Vec<(PathBuf, Classes)>,
    /// Guests with a request for their next timer, by directory and name.
    pub timers: Vec<(PathBuf, String)>,
    /// Complaints to report.
    pub complaints: Vec<String>,
}

impl Attachments {
    /// Requests the guest's port from the `pinhead up` that started the guest, if there is such a
    /// process. Nothing is sent if that process has handed over its guests already.
    pub fn attach(&mut self, found: &Found, now_ms: u64) -> Answers {
        match run_dir(found) {
            Some(dir) => self.attach_dir(dir, found.owner, now_ms),
            None => Answers::default(),
        }
    }

    /// Requests the ports of all guests in the directory of a `pinhead up`. These guests may all be
    /// unknown, because the manager inside `pinhead up` may hold their monitors.
    pub fn attach_dir(&mut self, dir: &Path, owner: Owner, now_ms: u64) -> Answers {
        let mut answers = Answers::default();
        let one = self.all.entry(dir.to_path_buf()).or_insert_with(|| Attachment {
            owner,
            lent: Lent::No,
            classes: Classes::default(),
            open: None,
            due_ms: now_ms,
            is_reported: false,
        });
        one.look(dir, now_ms, &mut answers);
        answers.lent.push((dir.to_path_buf(), one.lent));
        if !one.classes.is_empty() {
            answers.classes.push((dir.to_path_buf(), Arc::clone(&one.classes)));
        }
        limit(&mut self.told, owner, 0, now_ms, &mut answers);
        answers
    }

    /// Adds the connections to the poll set.
    pub fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        for one in self.all.values().filter_map(|one| one.open.as_ref()) {
            set.add(0, one.stream.as_fd(), PollFlags::IN);
        }
    }

    /// Handles input. A closed connection means that its `pinhead up` has ended.
    pub fn turn(&mut self, now_ms: u64) -> Answers {
        let mut answers = Answers::default();
        for (dir, one) in &mut self.all {
            let before = answers.complaints.len();
            one.receive(dir, now_ms, &mut answers);
            limit(&mut self.told, one.owner, before, now_ms, &mut answers);
        }
        answers
    }

    /// Sends a guest's next timer to the `pinhead up` of a directory. If `pinhead up` does not read
    /// the message, it parks the guest without the timer.
    pub fn tell_timer(&mut self, dir: &Path, timer: &NextTimer) {
        let open = self.all.get_mut(dir).and_then(|one| one.open.as_mut());
        if let Some(open) = open {
            let _ = open.stream.write(&encode_message(timer));
        }
    }

    /// Repeats failed requests and drops connections without guests. Called once a second.
    pub fn tick(&mut self, has_guests: impl Fn(&Path) -> bool, now_ms: u64) -> Answers {
        let mut answers = Answers::default();
        self.all.retain(|dir, _| has_guests(dir));
        for (dir, one) in &mut self.all {
            let before = answers.complaints.len();
            one.look(dir, now_ms, &mut answers);
            limit(&mut self.told, one.owner, before, now_ms, &mut answers);
        }
        answers
    }
}

impl Attachment {
    fn look(&mut self, dir: &Path, now_ms: u64, answers: &mut Answers) {
        if self.lent == Lent::Yes || now_ms < self.due_ms {
            return;
        }
        if self.open.is_some() {
            self.due_ms = u64::MAX;
            return self.complain(dir, "that `pinhead up` does not answer", answers);
        }
        match connect(dir, self.owner) {
            Ok(stream) => {
                self.due_ms = now_ms + ANSWER_MS;
                let budget = Budget::new(BYTES_A_SECOND, ANSWER_MAX, now_ms);
                self.open = Some(Connection { stream, lines: Lines::default(), budget });
            }
            Err(error) => {
                self.due_ms = now_ms + AGAIN_MS;
                let reason = match error.kind() {
                    ErrorKind::PermissionDenied => "its control socket belongs to another \
                                                    user"
                        .into(),
                    ErrorKind::WouldBlock => "too many requests wait for its response".into(),
                    _ => format!("its control socket cannot be reached: {error}"),
                };
                self.complain(dir, &reason, answers);
            }
        }
    }

    fn receive(&mut self, dir: &Path, now_ms: u64, answers: &mut Answers) {
        let Some(open) = &mut self.open else { return };
        open.budget.refill(now_ms);
        match open.lines.read(&open.stream) {
            Ok(Received::Nothing) => return,
            Ok(Received::Bytes(count)) if count as u64 <= open.budget.left() => {
                open.budget.spend(READ_COST.max(count as u64));
            }
            Ok(Received::Bytes(_) | Received::End) | Err(_) => {
                return self.close(dir, now_ms, answers);
            }
        }
        while let Some(line) = self.open.as_mut().and_then(|open| open.lines.next_line()) {
            match self.lent {
                Lent::Yes => self.asked(&line, dir, now_ms, answers),
                Lent::No | Lent::NotNeeded => self.answered(&line, dir, now_ms, answers),
            }
        }
        let most = if self.lent == Lent::Yes { REQUEST_MAX } else { ANSWER_MAX as usize };
        if self.open.as_ref().is_some_and(|open| open.lines.len() > most) {
            self.close(dir, now_ms, answers);
        }
    }

    /// Handles a request of a `pinhead up` that has handed over its guests.
    fn asked(&mut self, line: &[u8], dir: &Path, now_ms: u64, answers: &mut Answers) {
        match decode_message(line) {
            Some(AskNextTimer { next_timer_of }) => {
                answers.timers.push((dir.to_path_buf(), next_timer_of));
            }
            None => {
                self.complain(
                    dir,
                    "its request does not belong to this version of pinhead",
                    answers,
                );
                self.close(dir, now_ms, answers);
            }
        }
    }

    fn answered(&mut self, line: &[u8], dir: &Path, now_ms: u64, answers: &mut Answers) {
        match decode_answer(line) {
            Ok((_, Ok(Answer::Lend(lent)))) => {
                (self.lent, self.is_reported) = (Lent::Yes, false);
                answers.lent.push((dir.to_path_buf(), Lent::Yes));
                self.classes = Arc::new(classes(lent.classes));
                answers.classes.push((dir.to_path_buf(), Arc::clone(&self.classes)));
            }
            Ok((_, Err(failure))) => {
                self.complain(dir, &base::plain(&failure.to_string(), REASON_MAX), answers);
                self.close(dir, now_ms, answers);
            }
            _ => {
                self.complain(
                    dir,
                    "its response does not belong to this version of pinhead",
                    answers,
                );
                self.close(dir, now_ms, answers);
            }
        }
    }

    fn close(&mut self, dir: &Path, now_ms: u64, answers: &mut Answers) {
        (self.open, self.due_ms) = (None, now_ms + AGAIN_MS);
        if std::mem::replace(&mut self.lent, Lent::No) == Lent::Yes {
            answers.lent.push((dir.to_path_buf(), Lent::No));
        }
    }

    /// Reports why guests are not handed over. The report is repeated only after a handover.
    fn complain(&mut self, dir: &Path, reason: &str, answers: &mut Answers) {
        if !std::mem::replace(&mut self.is_reported, true) {
            let dir = dir.display();
            let text =
                format!("The guests of `pinhead up` in {dir} are not managed here: {reason}");
            answers.complaints.push(text);
        }
    }
}

/// Makes class names printable, because another user's farm may send any text.
fn classes(told: BTreeMap<String, String>) -> BTreeMap<String, String> {
    told.into_iter().map(|(name, class)| (name, base::plain(&class, CLASS_MAX))).collect()
}

/// Drops new complaints about another user's guests if the last complaint is too recent.
fn limit(
    told: &mut BTreeMap<Owner, u64>,
    owner: Owner,
    before: usize,
    now_ms: u64,
    answers: &mut Answers,
) {
    if owner.is_trusted() || answers.complaints.len() == before {
        return;
    }
    match told.get(&owner) {
        Some(at_ms) if now_ms < at_ms + COMPLAINTS_MS => answers.complaints.truncate(before),
        _ => drop(told.insert(owner, now_ms)),
    }
}

/// Connects to the `pinhead up` of a run directory and requests its guests, without waiting. A
/// listener with a full queue counts as missing, because the queue could stay full forever.
fn connect(dir: &Path, owner: Owner) -> io::Result<UnixStream> {
    let mut stream = hypervisor::connect(&dir.join(SOCKET), owner)?;
    // A link could lead a root manager to another user's socket.
    if Owner(reactor::peer(&stream)?.uid) != owner {
        return Err(ErrorKind::PermissionDenied.into());
    }
    stream.write_all(&encode_request(&Request { id: 1, ask: Ask::Lend }))?;
    Ok(stream)
}

/// Returns the directory of the guest's socket, if it is the run directory of a `pinhead up`.
pub fn run_dir(found: &Found) -> Option<&Path> {
    of_socket(Path::new(&found.source))
}

fn of_socket(socket: &Path) -> Option<&Path> {
    socket.parent().and_then(of_dir)
}

/// Returns the directories of `pinhead up` that contain monitors without a known guest. Their
/// number is limited for each user named in the settings, because a user can create any number.
pub fn farms_to_ask(
    unclaimed: &BTreeSet<(PathBuf, Owner)>,
) -> impl Iterator<Item = &(PathBuf, Owner)> {
    let mut counts: BTreeMap<Owner, usize> = BTreeMap::new();
    unclaimed.iter().filter(|(dir, _)| of_dir(dir).is_some()).filter(move |(_, owner)| {
        let count = counts.entry(*owner).or_default();
        *count += 1;
        owner.is_trusted() || *count <= FARMS_OF_OTHERS
    })
}

/// Returns the directory if it is the run directory of a `pinhead up`.
fn of_dir(dir: &Path) -> Option<&Path> {
    dir.file_name()?.to_str()?.parse::<u32>().ok()?;
    let above = dir.parent().filter(|above| above.ends_with("up"))?.parent()?;
    // Without a session's runtime directory, the name ends in the user's number.
    let name = above.file_name()?.to_str()?.strip_prefix("pinhead")?;
    let is_users = || name.strip_prefix('-').is_some_and(|user| user.parse::<u32>().is_ok());
    (name.is_empty() || is_users()).then_some(dir)
}

#[cfg(test)]
mod tests;
