//! The keeper's process.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use base::Bytes;
use hypervisor::{ProcessId, is_hidden};
use model::counters::Counter;
use procfs::{Buffer, Reader, Root, ZfsCache};
use reactor::{PollSet, Ready};
use rustix::event::PollFlags;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::groups::GuestGroups;
use super::lease::loops_work;
use super::order::{LINE_MAX, Order, decode};
use super::pools::Pools;
use super::sources::Sources;
use super::{Book, Limits, Outcome, Place, Rescue, Verdict, Wakes};
use crate::clock::Clock;
use crate::parked::strike_out;

/// Time within which a killed manager ends, unless the kernel itself delays the end.
const DEATH_MS: u64 = 5000;

/// Options of a keeper.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Timeouts.
    pub limits: Limits,
    /// Root of /proc and /sys; `/` except in tests.
    pub root: Root,
    /// File in which the manager lists guests that are parked or have less than their full size.
    pub parked: Option<PathBuf>,
}

/// Result of a keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The manager ended in order.
    Released,
    /// All that could be restored was restored.
    Restored,
    /// Some guest did not get its full size or stays parked, or KSM's settings were not restored.
    Partly,
}

/// The pipe from the manager.
struct Line<F> {
    pipe: F,
    input: Vec<u8>,
    has_ended: bool,
    manager: Option<Manager>,
}

struct Manager {
    pid: u32,
    descriptor: OwnedFd,
}

/// Waits for the manager's end, and restores its guests. Messages go to `log`, a sentence at a
/// time.
pub fn run<F: AsFd>(pipe: F, options: &Options, log: &mut dyn FnMut(&str)) -> io::Result<Ended> {
    let clock = Clock::start();
    settle(&options.root);
    let mut line = Line { pipe, input: Vec::new(), has_ended: false, manager: None };
    let mut book = Book::new();
    loop {
        let verdict = book.verdict(
            line.has_ended,
            || loops_work(line.manager.as_ref()?.pid),
            options.limits,
            clock.ms(),
        );
        match verdict {
            Verdict::Leave => return Ok(Ended::Released),
            Verdict::Rescue => {
                let how = if book.is_asked_for() { "ended" } else { "died" };
                log(&format!("The manager has {how}: {}", to_do(&book)));
                return rescue(&book, options, &clock, log);
            }
            Verdict::End => {
                let limit_ms = options.limits.beat_ms;
                log(&format!(
                    "The manager could run for {limit_ms} ms, but sent no heartbeat: it is killed, \
                     and {}",
                    to_do(&book)
                ));
                line.end_manager();
                return rescue(&book, options, &clock, log);
            }
            Verdict::Wait { until_ms } => {
                let mut set = PollSet::new();
                set.add(0, line.pipe.as_fd(), PollFlags::IN);
                if wait(set, until_ms, &clock)?.has(0) {
                    line.read(&mut book, &clock)?;
                }
            }
        }
    }
}

fn to_do(book: &Book) -> &'static str {
    match (book.guests().next().is_some(), book.parked().next().is_some()) {
        (false, true) => "its parked guests run again",
        (true, true) => "its guests get their memory back, and the parked ones run again",
        _ => "its guests get their memory back",
    }
}

/// OOM score adjustment of the keeper, which the kernel then never kills for lack of memory.
const NEVER: &str = "-1000";
/// OOM score adjustment of the manager. The kernel kills other processes before the manager, and
/// the manager before the keeper.
const LATE: &str = "-900";

/// Leaves the manager's session, so that the keeper survives the session's end. Also makes the
/// kernel kill other processes first when memory runs out. The keeper also works if one or both of
/// these calls fail.
fn settle(root: &Root) {
    // The call fails for the leader of a process group, which needs no new session.
    let _ = rustix::process::setsid();
    set_score(root, NEVER);
}

/// Makes the kernel kill a manager last, just before its keeper.
pub(crate) fn spare_manager(root: &Root) {
    set_score(root, LATE);
}

/// Sets this process's score. A score below the initial score needs CAP_SYS_RESOURCE. Without that
/// capability the kernel chooses by size, as usual.
fn set_score(root: &Root, score: &str) {
    let file = root.path().join("proc/self/oom_score_adj");
    let opened = File::options().write(true).open(file);
    let _ = opened.and_then(|mut file| file.write_all(score.as_bytes()));
}

impl<F: AsFd> Line<F> {
    fn read(&mut self, book: &mut Book, clock: &Clock) -> io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        match rustix::io::read(&self.pipe, &mut buffer) {
            Ok(0) => self.has_ended = true,
            Ok(count) => self.input.extend_from_slice(&buffer[..count]),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            // An unknown line is from another version. The other lines still count.
            let Some(order) = decode(line.trim_ascii()) else { continue };
            if let Order::Manager { pid, start_ticks } = order {
                self.manager = manager(ProcessId { pid, start_ticks });
            }
            book.take(order, clock.ms());
        }
        if self.input.len() > LINE_MAX {
            self.input.clear();
        }
        Ok(())
    }

    /// Kills the manager, and no other process, and waits until its connections are closed.
    fn end_manager(&self) {
        let Some(Manager { descriptor, .. }) = &self.manager else { return };
        if pidfd_send_signal(descriptor, Signal::KILL).is_ok() {
            let clock = Clock::start();
            let mut set = PollSet::new();
            set.add(0, descriptor.as_fd(), PollFlags::IN);
            let _ = wait(set, DEATH_MS, &clock);
        }
    }
}

/// Opens a pidfd of the manager. The process is checked after the pidfd was opened, because from
/// then on the descriptor cannot refer to another process.
fn manager(process: ProcessId) -> Option<Manager> {
    let pid = Pid::from_raw(i32::try_from(process.pid).ok()?)?;
    let descriptor = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    process.is_alive().then_some(Manager { pid: process.pid, descriptor })
}

fn rescue(
    book: &Book,
    options: &Options,
    clock: &Clock,
    log: &mut dyn FnMut(&str),
) -> io::Result<Ended> {
    let failed = book.ksm.as_ref().map(|saved| saved.put_back(options.root.path()));
    let failed: Vec<(PathBuf, io::Error)> = failed.unwrap_or_default();
    for (path, error) in &failed {
        log(&format!("{} could not be restored: {error}", path.display()));
    }
    let mut memory = Reader::open(&options.root, &[Counter::Meminfo("MemAvailable".into())]).ok();
    let limit_ms = options.limits.rescue_ms;
    let groups = GuestGroups::of(book, options.root.path());
    let rescue = Rescue::new(book.of_this_host(), book.reserve, limit_ms, clock.ms());
    let mut rescue = rescue.within(&groups.most());
    let mut pools = Pools::of(book, clock.ms());
    let mut wakes = Wakes::new(book.parked());
    let mut sources = Sources::of(book);
    let mut ready = None;
    let is_over = |rescue: &Rescue, wakes: &Wakes, pools: &Pools| {
        let rest = wakes.is_over() && pools.are_over();
        rescue.is_over(clock.ms()) && (rest || rescue.is_late(clock.ms()))
    };
    while !is_over(&rescue, &wakes, &pools) {
        for held in book.all() {
            if held.process().is_some_and(|process| !process.is_alive()) {
                rescue.gone(held.id, "its process has ended");
                wakes.gone(held.id);
            } else if matches!(&held.place, Place::Qmp(path) if is_hidden(Path::new(path))) {
                rescue.gone(held.id, "its `pinhead up` parked it and returns its memory itself");
            }
        }
        sources.turn(ready.as_ref(), book, (&mut rescue, &mut wakes), clock.ms());
        wakes.step(clock.ms());
        let available = available(&mut memory, &options.root);
        let available = available.map(|free| groups.within(free));
        let targets = rescue.step(available, clock.ms());
        sources.ask(&targets, clock.ms());
        pools.turn(clock.ms());
        let until_ms = rescue.next_ms(clock.ms()).min(sources.next_ms()).min(wakes.next_ms());
        let mut set = sources.poll_set();
        pools.fds(&mut set);
        ready = Some(wait(set, until_ms.min(pools.next_ms()), clock)?);
        rescue.looks(clock.ms());
    }
    if let Some(path) = &options.parked {
        let woken = book.parked().filter(|held| !wakes.is_left(held.id));
        let woken = woken.filter_map(|held| held.process()).collect();
        let restored = book.guests().filter(|held| !rescue.is_left(held.id));
        let restored = restored.filter_map(|held| Some((held.process()?, Bytes(held.restore))));
        let restored = restored.collect();
        if let Err(error) = strike_out(path, &woken, &restored) {
            log(&format!("{} cannot be renewed: {error}", path.display()));
        }
    }
    let ended = report(&rescue, !failed.is_empty(), log);
    let ended = if pools.report(log) { ended } else { Ended::Partly };
    Ok(report_wakes(wakes, ended, log))
}

/// Returns the host's available memory, including the shrinkable part of ZFS's cache.
fn available(memory: &mut Option<Reader>, root: &Root) -> Option<Bytes> {
    let mut row = [f64::NAN];
    memory.as_mut()?.read(0.0, &mut row).ok()?;
    let zfs = ZfsCache::read(root.path(), &mut Buffer::default()).unwrap_or_default();
    row[0].is_finite().then(|| Bytes((row[0] as u64).saturating_mul(1024)).plus(zfs.gives))
}

fn report(rescue: &Rescue, is_partly: bool, log: &mut dyn FnMut(&str)) -> Ended {
    let mut ended = if is_partly { Ended::Partly } else { Ended::Restored };
    let mut restored = 0;
    for (name, outcome) in rescue.outcomes() {
        let name = name.escape_debug();
        match outcome {
            Outcome::Restored => restored += 1,
            Outcome::Gone(reason) => log(&format!("{name} gets no memory back: {reason}")),
            Outcome::Missing { bytes, refusal } => {
                ended = Ended::Partly;
                let why = refusal
                    .map_or("the host has no more memory to give".to_owned(), |refusal| {
                        format!("its hypervisor refused: {}", refusal.escape_debug())
                    });
                log(&format!("{name} lacks {} MiB: {why}", bytes.nearest_mib()));
            }
            Outcome::Bounded(bytes) => {
                ended = Ended::Partly;
                let lacks = bytes.nearest_mib();
                log(&format!("{name} lacks {lacks} MiB: its control group is at its limit"));
            }
            Outcome::Unreached => {
                ended = Ended::Partly;
                log(&format!(
                    "{name} did not get its memory back: its hypervisor does not respond"
                ));
            }
        }
    }
    if restored > 0 {
        log(&format!("Guests that have all their memory: {restored}"));
    }
    ended
}

/// Reports the parked guests. Without parked guests there is no message.
fn report_wakes(wakes: Wakes, ended: Ended, log: &mut dyn FnMut(&str)) -> Ended {
    let (awake, failed) = wakes.outcomes();
    if awake > 0 {
        log(&format!("Parked guests that run again: {awake}"));
    }
    for (name, why) in &failed {
        log(&format!("{} is still parked: {why}", name.escape_debug()));
    }
    if failed.is_empty() { ended } else { Ended::Partly }
}

/// Waits until a descriptor is ready or the time is over.
fn wait(set: PollSet<'_>, until_ms: u64, clock: &Clock) -> io::Result<Ready> {
    set.wait(until_ms.saturating_sub(clock.ms()).min(60_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::FakeKernel;

    #[test]
    fn finding2_17_keeper_is_killed_after_its_manager() {
        let kernel = FakeKernel::new(1, 1);
        kernel.write("proc/self/oom_score_adj", "");
        spare_manager(&kernel.root());
        assert_eq!(kernel.read("proc/self/oom_score_adj"), "-900");
        // The keeper inherits the manager's score.
        kernel.write("proc/self/oom_score_adj", "");
        settle(&kernel.root());
        assert_eq!(kernel.read("proc/self/oom_score_adj"), "-1000");
    }
}
