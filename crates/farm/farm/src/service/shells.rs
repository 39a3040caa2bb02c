//! Commands in guests, one at a time per guest, with their output relayed as it arrives.
//!
//! The guest's control port is a shell that takes a line, writes the command's output, and marks
//! the end of the output. Only this module reads these ports while a farm runs.

use std::collections::VecDeque;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use base::shell_word;
use reactor::{Event, PollSet, is_passing};
use rustix::event::PollFlags;
use vm::Mark;

use super::peer::drain_into;
use crate::fleet::{Fleet, Member};

/// Maximum number of waiting commands of one guest.
const WAITING_MAX: usize = 64;
/// Maximum number of ended commands with unread output. Above the limit the oldest client is
/// disconnected.
const ENDED_MAX: usize = 64;
/// Maximum unread output, in bytes, kept for a client. At the limit, no more output of the guest is
/// read.
const UNREAD_MAX: usize = 256 * 1024;

/// Maximum output, in bytes, of earlier commands that is discarded before the next command. Any
/// further output mixes with the output of the next command.
const DISCARDED_MAX: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Shells {
    guests: Vec<Shell>,
    /// Ended commands with unread output.
    ended: VecDeque<Job>,
}

#[derive(Debug, Default)]
struct Shell {
    stream: Option<UnixStream>,
    waiting: VecDeque<Job>,
    running: Option<Job>,
    /// Command that ended since the last turn and has unread output.
    ended: Option<Job>,
    /// Rest of the running command's line that the guest has not taken yet.
    unsent: Vec<u8>,
    mark: Mark,
    /// True if the set-up line has ended since the last turn.
    is_set_up: bool,
}

/// A command. Without a client its output is dropped.
#[derive(Debug)]
struct Job {
    command: String,
    client: Option<UnixStream>,
    unread: Vec<u8>,
    /// True for the set-up line of the guest.
    sets_up: bool,
}

impl Shells {
    pub(super) fn new(guests: usize) -> Shells {
        let guests = std::iter::repeat_with(Shell::default).take(guests).collect();
        Shells { guests, ended: VecDeque::new() }
    }

    /// Starts a line in the background, with its output on the guest's console.
    pub(super) fn run_aside(&mut self, guest: usize, command: &str, fleet: &mut Fleet) {
        let line =
            format!("setsid sh -c {} < /dev/null > /dev/console 2>&1 &", shell_word(command));
        self.run(guest, line, None, fleet);
    }

    /// Runs a line. A client gets the given answer at once, then the line's output and its end.
    pub(super) fn run(
        &mut self,
        guest: usize,
        command: String,
        client: Option<(UnixStream, Vec<u8>)>,
        fleet: &mut Fleet,
    ) {
        let shell = &mut self.guests[guest];
        let (client, answer) = client.unzip();
        let unread = answer.unwrap_or_default();
        let mut job = Job { command, client, unread, sets_up: false };
        job.relay();
        if shell.waiting.len() < WAITING_MAX {
            shell.waiting.push_back(job);
        }
        shell.advance(guest, fleet);
    }

    /// Returns the guests with running or waiting commands.
    pub(super) fn busy(&self) -> impl Iterator<Item = usize> {
        let is_busy = |shell: &Shell| shell.running.is_some() || !shell.waiting.is_empty();
        (0..).zip(&self.guests).filter(move |(_, shell)| is_busy(shell)).map(|(guest, _)| guest)
    }

    /// Runs a line before all waiting commands. [`turn`](Self::turn) reports the line's end.
    pub(super) fn set_up(&mut self, guest: usize, command: String, fleet: &mut Fleet) {
        let shell = &mut self.guests[guest];
        shell.waiting.retain(|job| !job.sets_up);
        let job = Job { command, client: None, unread: Vec::new(), sets_up: true };
        shell.waiting.push_front(job);
        shell.advance(guest, fleet);
    }

    /// Drops the commands of a guest without a QEMU. The connections of these commands' clients end
    /// early.
    pub(super) fn has_ended(&mut self, guest: usize) {
        let ended = self.guests[guest].ended.take();
        self.guests[guest] = Shell { ended, ..Shell::default() };
    }

    /// Disconnects all clients. The connections to the guests stay, as they cannot be made again. A
    /// running command continues, and the next command begins after the end mark of the running
    /// command.
    pub(super) fn drop_clients(&mut self) {
        self.ended.clear();
        for shell in &mut self.guests {
            shell.waiting.retain(|job| job.client.is_none());
            shell.ended = None;
            if let Some(job) = &mut shell.running {
                job.client = None;
                job.unread.clear();
            }
        }
    }

    /// Handles a restart of the guest: the running command is lost, and the set-up line runs again.
    pub(super) fn was_reset(&mut self, guest: usize) {
        let shell = &mut self.guests[guest];
        if let Some(job) = shell.running.take().filter(|job| job.sets_up) {
            shell.waiting.push_front(job);
        }
        shell.unsent.clear();
        shell.mark = Mark::default();
    }

    pub(super) fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        for (shell, guest) in self.guests.iter().zip(0..) {
            // Output is not read while the command's client does not read.
            let job = shell.running.as_ref().filter(|job| job.unread.len() < UNREAD_MAX);
            if let (Some(stream), Some(_)) = (&shell.stream, job) {
                set.add(guest, stream.as_fd(), PollFlags::IN);
            }
        }
    }

    /// Adds the clients with unread output, so that the rest is sent as they read.
    pub(super) fn client_fds<'a>(&'a self, set: &mut PollSet<'a>) {
        let running = self.guests.iter().filter_map(|shell| shell.running.as_ref());
        let unread = running.chain(&self.ended).filter(|job| !job.unread.is_empty());
        let clients = unread.filter_map(|job| job.client.as_ref());
        (0..).zip(clients).for_each(|(key, client)| set.add(key, client.as_fd(), PollFlags::OUT));
    }

    /// Reads the output of commands, and returns the guests that have been set up.
    pub(super) fn turn(&mut self, ready: &[Event], fleet: &mut Fleet) -> Vec<usize> {
        for event in ready {
            self.guests[event.key as usize].listen();
        }
        for (guest, shell) in self.guests.iter_mut().enumerate() {
            shell.running.iter_mut().for_each(Job::relay);
            self.ended.extend(shell.ended.take());
            shell.advance(guest, fleet);
        }
        self.ended.iter_mut().for_each(Job::relay);
        self.ended.retain(|job| job.client.is_some() && !job.unread.is_empty());
        self.ended.drain(..self.ended.len().saturating_sub(ENDED_MAX));
        let shells = self.guests.iter_mut().enumerate();
        shells
            .filter_map(|(at, shell)| std::mem::take(&mut shell.is_set_up).then_some(at))
            .collect()
    }
}

impl Shell {
    /// Sends pending input, and begins the next command if none runs.
    fn advance(&mut self, guest: usize, fleet: &mut Fleet) {
        if self.running.is_none() && self.waiting.is_empty() {
            return;
        }
        if self.stream.is_none() {
            self.stream = fleet.take_ctl(guest).filter(|s| s.set_nonblocking(true).is_ok());
        }
        if self.stream.is_none() && fleet.members().get(guest).is_some_and(Member::is_away) {
            // The guest is coming back from disk, and has to stay awake for the command.
            fleet.keep_awake(guest);
            return;
        }
        if self.stream.is_none() {
            // The guest has no shell or does not run, so these commands never run.
            self.waiting.clear();
            return;
        }
        while self.running.is_none() {
            let Some(job) = self.waiting.pop_front() else { return };
            if job.client.as_ref().is_some_and(has_gone) {
                continue;
            }
            self.discard();
            self.unsent = format!("{}\n", job.command).into_bytes();
            self.mark = Mark::default();
            self.running = Some(job);
        }
        if let Some(stream) = &self.stream
            && !drain_into(stream, &mut self.unsent)
        {
            self.lose();
        }
    }

    /// Discards output that background processes of earlier commands have written after the end of
    /// their commands. Returns the number of bytes.
    fn discard(&mut self) -> usize {
        let mut chunk = [0; 4096];
        let mut discarded = 0;
        let Some(stream) = &mut self.stream else { return 0 };
        while discarded < DISCARDED_MAX
            && let Ok(count @ 1..) = stream.read(&mut chunk)
        {
            discarded += count;
        }
        discarded
    }

    fn listen(&mut self) {
        let (Some(stream), Some(job)) = (&mut self.stream, &mut self.running) else { return };
        let mut chunk = [0; 16 * 1024];
        match stream.read(&mut chunk) {
            Ok(0) => self.lose(),
            Ok(count) => {
                let fed = self.mark.feed(&chunk[..count]);
                if job.client.is_some() {
                    job.unread.extend_from_slice(&chunk[..fed.used]);
                }
                if fed.end.is_some() {
                    self.finish();
                }
            }
            Err(error) if is_passing(&error) => {}
            Err(_) => self.lose(),
        }
    }

    /// Ends a command. The command's client gets the rest of the output as the client reads.
    fn finish(&mut self) {
        let Some(mut job) = self.running.take() else { return };
        self.is_set_up |= job.sets_up;
        job.relay();
        self.ended = Some(job);
    }

    /// Handles a closed port: the guest was restarted or is about to end.
    fn lose(&mut self) {
        let (waiting, ended) = (std::mem::take(&mut self.waiting), self.ended.take());
        *self = Shell { waiting, ended, ..Shell::default() };
    }
}

impl Job {
    fn relay(&mut self) {
        if let Some(client) = &self.client
            && !drain_into(client, &mut self.unread)
        {
            // The command runs to its end, as the guest's shell cannot abort it.
            self.client = None;
            self.unread.clear();
        }
    }
}

/// Returns true if a client without further input has closed its end.
fn has_gone(client: &UnixStream) -> bool {
    let mut byte = [0];
    match rustix::net::recv(client, &mut byte, rustix::net::RecvFlags::PEEK) {
        Ok((_, count)) => count == 0,
        Err(error) => !matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_guest_reset_during_its_set_up_is_set_up_again() {
        let job = |command: &str, sets_up| Job {
            command: command.to_owned(),
            client: None,
            unread: Vec::new(),
            sets_up,
        };
        let mut shells = Shells::new(1);
        shells.guests[0].running = Some(job("set up", true));
        shells.guests[0].waiting.push_back(job("other", false));
        shells.was_reset(0);
        let shell = &mut shells.guests[0];
        assert!(shell.running.is_none());
        let waiting: Vec<_> = shell.waiting.iter().map(|job| job.command.as_str()).collect();
        assert_eq!(waiting, ["set up", "other"]);
        // A running command other than the set-up line is dropped.
        shell.running = Some(job("other", false));
        shells.was_reset(0);
        assert_eq!(shells.guests[0].waiting.len(), 2);
    }

    #[test]
    fn guest_answers_next_client_after_clients_were_dropped() {
        let pair = || UnixStream::pair().unwrap();
        let ((port, mut guest), (client, _asking), (next, mut answered)) = (pair(), pair(), pair());
        let mut fleet = Fleet::of(Vec::new(), 1);
        let mut shells = Shells::new(1);
        for one in [&port, &client, &next] {
            one.set_nonblocking(true).unwrap();
        }
        shells.guests[0].stream = Some(port);
        shells.run(0, "first".into(), Some((client, Vec::new())), &mut fleet);
        shells.drop_clients();
        shells.run(0, "second".into(), Some((next, Vec::new())), &mut fleet);
        let mut line = [0; 6];
        guest.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"first\n");
        guest.write_all(b"of the first\x01done 0\n").unwrap();
        shells.guests[0].listen();
        shells.turn(&[], &mut fleet);
        let mut line = [0; 7];
        guest.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"second\n");
        guest.write_all(b"of the second\x01done 0\n").unwrap();
        shells.guests[0].listen();
        drop(shells);
        let mut answer = String::new();
        answered.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "of the second\x01done 0\n");
    }

    #[test]
    fn finding_15_endless_output_is_discarded_up_to_256_kib() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut shell = Shell { stream: Some(ours), ..Shell::default() };
        let endless =
            std::thread::spawn(move || while theirs.write_all(&[b'x'; 65_536]).is_ok() {});
        let (mut all, mut most) = (0, 0);
        while all < 16 << 20 {
            let discarded = shell.discard();
            (all, most) = (all + discarded, most.max(discarded));
        }
        drop(shell);
        endless.join().unwrap();
        assert!(most <= 262_144 + 4_096, "{most} bytes in one turn");
    }
}
