//! The manager's end of the pipe to its keeper.
//!
//! The lease never blocks. The newest state of each guest is stored until the keeper reads it. A
//! hung keeper costs a bounded amount of memory. A dead keeper is replaced, and the new keeper gets
//! the state of all guests.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use base::Bytes;
use hypervisor::ProcessId;
use procfs::{Chance, Work};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::order::{Held, Order, encode};
use crate::ksm::Saved;

/// Interval of the manager's heartbeat.
pub const BEAT_MS: u64 = 2000;
/// Time after which a dead keeper is replaced.
const RESTART_MS: u64 = 1000;
/// Time after which a keeper that does not read its input counts as hung and is replaced. Only time
/// in which the keeper could have run counts.
const STUCK_MS: u64 = 30_000;

/// Maximum number of keepers that are tried at the manager's end if keepers are killed.
const ENDS_MAX: u32 = 3;

/// Returns the CPU work of the main thread of a keeper or a manager. A process that was stopped by
/// a signal counts as hung.
pub(super) fn loops_work(pid: u32) -> Option<Work> {
    let work = Work::of_first_thread(pid)?;
    Some(Work { is_stopped: false, ..work })
}

/// Guests of one kind, and the changes not yet sent to the keeper.
#[derive(Debug, Default)]
struct Told {
    guests: BTreeMap<u64, Held>,
    changed: BTreeSet<u64>,
}

impl Told {
    /// Stores a guest. Returns true if its state is new.
    fn put(&mut self, held: Held) -> bool {
        let is_news = self.guests.get(&held.id) != Some(&held);
        if is_news {
            self.changed.insert(held.id);
            self.guests.insert(held.id, held);
        }
        is_news
    }

    fn remove(&mut self, id: u64) -> bool {
        let was_there = self.guests.remove(&id).is_some();
        if was_there {
            self.changed.insert(id);
        }
        was_there
    }

    /// Marks all guests as changed, for a new keeper.
    fn tell_all(&mut self) {
        self.changed = self.guests.keys().copied().collect();
    }

    fn lines(&mut self, is: fn(Held) -> Order, is_not: fn(u64) -> Order, out: &mut Vec<u8>) {
        for id in std::mem::take(&mut self.changed) {
            let held = self.guests.get(&id).cloned();
            out.extend(encode(&held.map_or_else(|| is_not(id), is)));
        }
    }
}

/// The lease of all guests.
#[derive(Debug, Default)]
pub struct Lease {
    program: PathBuf,
    arguments: Vec<OsString>,
    keeper: Option<(Child, ChildStdin)>,
    /// Killed keepers that may not have ended yet.
    killed: Vec<Child>,
    held: Told,
    parked: Told,
    reserve: Bytes,
    ksm: Option<Saved>,
    /// True if the reserve or KSM's settings must still be sent to the keeper.
    is_news: bool,
    out: Vec<u8>,
    beats: u64,
    next_ms: u64,
    /// Time for which the keeper could have run while a message was waiting for it.
    taken: Chance,
    /// Number of replaced keepers.
    pub restarts: u64,
    /// True if the keeper was alive when it was checked, a while after its start.
    lives: bool,
}

impl Lease {
    /// Starts a keeper: this program with these arguments. The new process must call
    /// [`run`](super::run) with its standard input. The keeper's messages go to this process's
    /// standard error.
    pub fn start(program: PathBuf, arguments: Vec<OsString>, now_ms: u64) -> io::Result<Lease> {
        let taken = Chance::since(now_ms);
        let mut lease = Lease { program, arguments, next_ms: now_ms, taken, ..Lease::default() };
        lease.spawn()?;
        lease.beat(now_ms);
        Ok(lease)
    }

    /// Notes that a guest has less memory than its full size, or will have less. The call must
    /// precede the change of the target. A guest with its full size is released.
    pub fn hold(&mut self, held: Held) {
        if held.held >= held.restore {
            return self.release(held.id);
        }
        if self.held.put(held) {
            self.flush();
        }
    }

    /// Notes that a guest has all its memory, or is gone.
    pub fn release(&mut self, id: u64) {
        if self.held.remove(id) {
            self.flush();
        }
    }

    /// Notes that a guest's virtual CPUs are about to be stopped, so that the keeper resumes them.
    pub fn park(&mut self, held: Held) {
        if self.parked.put(held) {
            self.flush();
        }
    }

    /// Notes that a guest's virtual CPUs run again, or that the guest is gone.
    pub fn awake(&mut self, id: u64) {
        if self.parked.remove(id) {
            self.flush();
        }
    }

    /// Sets the host's free memory that no guest gets.
    pub fn set_reserve(&mut self, reserve: Bytes) {
        self.is_news |= self.reserve != reserve;
        self.reserve = reserve;
        self.flush();
    }

    /// Sets KSM's settings to restore, if any.
    pub fn set_ksm(&mut self, saved: Option<Saved>) {
        self.is_news |= self.ksm != saved;
        self.ksm = saved;
        self.flush();
    }

    /// Sends a heartbeat, and replaces a dead keeper.
    pub fn turn(&mut self, now_ms: u64) {
        self.killed.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        if let Some((child, _)) = &mut self.keeper {
            self.lives = matches!(child.try_wait(), Ok(None));
        }
        if !self.lives {
            self.keeper = None;
        }
        self.beat(now_ms);
    }

    fn beat(&mut self, now_ms: u64) {
        if now_ms < self.next_ms {
            return self.flush();
        }
        if self.keeper.is_none() {
            self.next_ms = now_ms.saturating_add(RESTART_MS);
            self.restarts += 1;
            if self.spawn().is_err() {
                return;
            }
            self.taken = Chance::since(now_ms);
        }
        self.next_ms = now_ms.saturating_add(BEAT_MS);
        if self.out.is_empty() {
            self.taken = Chance::since(now_ms);
            self.beats += 1;
            self.out = encode(&Order::Beat(self.beats));
        } else {
            let pid = self.keeper_pid();
            if self.taken.look(now_ms, || loops_work(pid?)) >= STUCK_MS {
                self.give_up();
            }
        }
        self.flush();
    }

    /// Returns the keeper's process, if there is one.
    pub fn keeper_pid(&self) -> Option<u32> {
        self.keeper.as_ref().map(|(child, _)| child.id())
    }

    /// Returns true if a keeper would restore the guests. A keeper that ends right after its start
    /// does not count.
    pub fn is_kept(&self) -> bool {
        self.lives && self.keeper.is_some()
    }

    /// Returns the number of guests that the keeper would restore.
    pub fn held(&self) -> usize {
        self.held.guests.len()
    }

    /// Ends the manager's side, so that the keeper restores everything. The exit status shows
    /// whether the keeper succeeded. The manager must have closed its connections before, because a
    /// QEMU monitor serves only one client.
    ///
    /// If the keeper was killed, for example by `killall` with the name that the manager and the
    /// keeper share, another keeper restores the guests.
    pub fn finish(mut self) -> io::Result<ExitStatus> {
        let mut tries = 1..ENDS_MAX;
        loop {
            let ended = self.try_end();
            let is_lost = match &ended {
                Ok(status) => status.signal().is_some(),
                Err(error) => error.kind() == io::ErrorKind::BrokenPipe,
            };
            if !is_lost || tries.next().is_none() {
                return ended;
            }
        }
    }

    fn try_end(&mut self) -> io::Result<ExitStatus> {
        if self.keeper.is_none() {
            self.spawn()?;
        }
        self.fill();
        self.out.extend(encode(&Order::Done));
        let Some((mut child, mut pipe)) = self.keeper.take() else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? - OFlags::NONBLOCK)?;
        let written = pipe.write_all(&self.out);
        drop(pipe);
        let status = child.wait()?;
        written.map(|()| status)
    }

    fn spawn(&mut self) -> io::Result<()> {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        let Some(pipe) = child.stdin.take() else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        self.keeper = Some((child, pipe));
        self.lives = false;
        self.out.clear();
        if let Some(ProcessId { pid, start_ticks }) = ProcessId::of(std::process::id()) {
            self.out = encode(&Order::Manager { pid, start_ticks });
        }
        self.held.tell_all();
        self.parked.tell_all();
        self.is_news = true;
        Ok(())
    }

    /// Kills a hung keeper. Its process ID cannot belong to another process, because the keeper is
    /// a child that has not been reaped. Later turns reap the keeper, because the kernel may delay
    /// its end.
    fn give_up(&mut self) {
        self.lives = false;
        if let Some((mut child, _)) = self.keeper.take() {
            let _ = child.kill();
            self.killed.push(child);
        }
    }

    /// Writes changes as far as the pipe has room. A message in progress is completed first.
    fn flush(&mut self) {
        loop {
            if self.out.is_empty() {
                self.fill();
            }
            let Some((_, pipe)) = &mut self.keeper else { return };
            if self.out.is_empty() {
                return;
            }
            match pipe.write(&self.out) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // If the pipe is full, the rest is written later. A pipe without a reader is
                // handled in the next turn.
                Err(_) => return,
            }
        }
    }

    fn fill(&mut self) {
        if std::mem::take(&mut self.is_news) {
            self.out.extend(encode(&Order::Reserve(self.reserve.0)));
            self.out.extend(encode(&Order::Ksm(self.ksm.clone())));
        }
        self.held.lines(Order::Guest, Order::Drop, &mut self.out);
        self.parked.lines(Order::Parked, Order::Awake, &mut self.out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use rustix::process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, waitid, waitpid,
    };

    #[test]
    fn stopped_loop_counts_as_one_that_hangs() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::STOP).unwrap();
        waitpid(Some(pid), WaitOptions::UNTRACED).unwrap();
        let is_stopped = |work: Option<Work>| work.is_some_and(|work| work.is_stopped);
        assert!(is_stopped(Work::of_first_thread(child.id())));
        assert!(!is_stopped(loops_work(child.id())) && loops_work(child.id()).is_some());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn hung_keeper_is_reaped_by_a_later_turn() {
        let mut lease = Lease::start("sleep".into(), vec!["1000".into()], 0).unwrap();
        let pid = Pid::from_child(&lease.keeper.as_ref().unwrap().0);
        lease.give_up();
        // An ended process stays visible to this call until it is reaped.
        let end = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), end).unwrap();
        lease.turn(1);
        assert_eq!(waitid(WaitId::Pid(pid), end).unwrap_err(), Errno::CHILD);
        assert!(lease.killed.is_empty());
    }
}
