//! The files of /proc that tell of tasks, one after the other through the same buffers.

use crate::sys;
use kernfs::Root;
use std::ffi::CStr;
use std::fs::File;
use std::io::{Read, Write};
use wire::{MAX_NAME, System, Totals};

/// The longest text of a task: stat has some 350 bytes.
const TEXT_MAX: usize = 1024;
/// As much of /proc/stat and /proc/schedstat is read: some hundred CPUs.
const TOTALS_MAX: u64 = 256 * 1024;
/// Room for a path below /proc.
const PATH_ROOM: usize = 64;
/// Room for a directory's entries, or for a longer text: some two hundred tasks at once.
const ENTRIES_ROOM: usize = 8 * 1024;
/// In a task's flags: it is a thread of the kernel.
const PF_KTHREAD: u64 = 0x0020_0000;

/// What a task has counted since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nanoseconds that it ran.
    pub run_ns: u64,
    /// Times that it was dispatched.
    pub dispatches: u64,
}

/// What /proc/PID/stat says of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Its name, cut to what is told of it.
    pub name: String,
    /// The letter of its state.
    pub state: u8,
    /// Whether it is a thread of the kernel.
    pub is_kernel: bool,
    /// Faults that had to read.
    pub major_faults: u64,
    /// Ticks in user mode.
    pub user_ticks: u64,
    /// Ticks in the kernel.
    pub system_ticks: u64,
    /// Those of children that have ended, in user mode.
    pub child_user_ticks: u64,
    /// Those of children that have ended, in the kernel.
    pub child_system_ticks: u64,
    /// Threads of its process.
    pub threads: u64,
    /// When it started, in ticks since the boot.
    pub start_ticks: u64,
    /// Its memory, in the kernel's pages.
    pub resident_pages: u64,
}

/// /proc, kept open, with a path and texts that are used again and again: who looks at every
/// task of a guest must not allocate for each, nor have the kernel walk there from the root.
#[derive(Debug)]
pub struct Dir {
    proc: Option<File>,
    path: Vec<u8>,
    text: [u8; TEXT_MAX],
    entries: Vec<u8>,
}

/// What the last visit of a process's first task found, if there was one.
pub type Last<'a> = &'a dyn Fn(u32) -> Option<Visit>;

/// A task that is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The number of its process.
    pub pid: u32,
    /// Its own.
    pub tid: u32,
    /// What it has counted.
    pub counts: Counts,
    /// Whether it is the only one of its process.
    pub is_alone: bool,
}

impl Dir {
    /// The one below a root.
    pub fn new(root: &Root) -> Dir {
        Dir {
            proc: File::open(root.join("proc")).ok(),
            path: Vec::with_capacity(PATH_ROOM),
            text: [0; TEXT_MAX],
            entries: vec![0; ENTRIES_ROOM],
        }
    }

    /// Opens what is below /proc.
    fn open(&mut self, rest: std::fmt::Arguments<'_>) -> Option<File> {
        sys::open_at(self.proc.as_ref()?, path(&mut self.path, rest)?).ok()
    }

    /// A short file's text.
    fn read(&mut self, rest: std::fmt::Arguments<'_>) -> Option<&[u8]> {
        let count = self.open(rest)?.read(&mut self.text).ok()?;
        self.text.get(..count)
    }

    /// Visits all tasks, up to so many. A process that had one task, and has not run since, has
    /// that one still: only who runs can start another.
    pub fn each(&mut self, most: usize, last: Last<'_>, mut visit: impl FnMut(Visit)) {
        let Some(proc) = self.proc.take() else { return };
        let pids = self.numbers(&proc, most);
        self.proc = Some(proc);
        let mut left = most;
        for pid in pids {
            if left == 0 {
                return;
            }
            let Some(counts) = self.counts(format_args!("{pid}/schedstat")) else { continue };
            let is_alone = match last(pid) {
                Some(last) if last.is_alone && last.counts == counts => true,
                // Threads mostly stay: its directory is listed at once.
                Some(last) if !last.is_alone => false,
                _ => self.is_alone(pid),
            };
            if is_alone {
                visit(Visit { pid, tid: pid, counts, is_alone: true });
                left -= 1;
                continue;
            }
            let Some(tasks) = self.open(format_args!("{pid}/task")) else { continue };
            let tids = self.numbers(&tasks, left);
            let is_alone = tids.len() == 1;
            for tid in tids {
                let counts = match tid == pid {
                    true => Some(counts),
                    false => self.counts(format_args!("{pid}/task/{tid}/schedstat")),
                };
                if let Some(counts) = counts {
                    visit(Visit { pid, tid, counts, is_alone });
                    left -= 1;
                }
            }
        }
    }

    /// Two links of a directory are its own, each further one is a task: one question instead
    /// of a listing for the many processes that have no threads.
    fn is_alone(&mut self, pid: u32) -> bool {
        let Some(proc) = &self.proc else { return false };
        let path = path(&mut self.path, format_args!("{pid}/task"));
        path.is_some_and(|path| sys::links_at(proc, path).is_ok_and(|links| links == 3))
    }

    /// The entries of a directory that are numbers, up to so many.
    fn numbers(&mut self, dir: &File, most: usize) -> Vec<u32> {
        let mut found = Vec::with_capacity(128.min(most));
        while let Ok(length @ 1..) = sys::list(dir, &mut self.entries) {
            let mut rest = self.entries.get(..length).unwrap_or_default();
            while let Some((name, later)) = sys::next_name(rest) {
                let number = decimal(name).and_then(|number| u32::try_from(number).ok());
                found.extend(number.filter(|_| found.len() < most));
                rest = later;
            }
        }
        found
    }

    fn counts(&mut self, rest: std::fmt::Arguments<'_>) -> Option<Counts> {
        let mut fields = self.read(rest)?.split(u8::is_ascii_whitespace).map(decimal);
        let run_ns = fields.next()??;
        let dispatches = fields.nth(1)??;
        Some(Counts { run_ns, dispatches })
    }

    /// A task's stat: for the first of a process that of the process.
    pub fn stat(&mut self, pid: u32, tid: u32) -> Option<Stat> {
        let text = match tid == pid {
            true => self.read(format_args!("{pid}/stat"))?,
            false => self.read(format_args!("{pid}/task/{tid}/stat"))?,
        };
        Stat::parse(text)
    }

    /// Where in the kernel a task waits.
    pub fn place(&mut self, pid: u32, tid: u32) -> Option<String> {
        let text = self.read(format_args!("{pid}/task/{tid}/wchan"))?;
        let text = name_of(text);
        (text != "0").then_some(text)
    }

    /// What the kernel counts of all tasks, and of the whole system.
    pub fn totals(&mut self) -> (Totals, System) {
        let (mut totals, mut system) = (Totals::default(), System::default());
        if let Some(text) = self.long(format_args!("stat")) {
            stat_totals(&text, &mut totals, &mut system);
        }
        if let Some(text) = self.long(format_args!("schedstat")) {
            scheduler_totals(&text, &mut totals);
        }
        (totals, system)
    }

    /// A longer file's text.
    pub fn long(&mut self, rest: std::fmt::Arguments<'_>) -> Option<String> {
        let file = self.open(rest)?;
        let mut text = String::with_capacity(ENTRIES_ROOM);
        file.take(TOTALS_MAX).read_to_string(&mut text).ok()?;
        Some(text)
    }
}

/// A path in room that is used again.
fn path<'a>(room: &'a mut Vec<u8>, rest: std::fmt::Arguments<'_>) -> Option<&'a CStr> {
    room.clear();
    room.write_fmt(rest).ok()?;
    room.push(0);
    CStr::from_bytes_with_nul(room).ok()
}

fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// A name from outside, within its bound. Bytes that are no text are replaced.
fn name_of(bytes: &[u8]) -> String {
    let mut name = String::from_utf8_lossy(bytes).into_owned();
    let mut end = name.len().min(MAX_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    name
}

impl Stat {
    /// Reads the text of a stat. The name in it is the task's own to choose, and may hold blanks
    /// and brackets; what follows the last bracket is the kernel's.
    pub fn parse(text: &[u8]) -> Option<Stat> {
        let start = text.iter().position(|byte| *byte == b'(')? + 1;
        let end = text.iter().rposition(|byte| *byte == b')')?;
        let name = name_of(text.get(start..end)?);
        let rest = text.get(end + 1..)?.trim_ascii();
        let mut stat = Stat { name, ..Stat::default() };
        let mut found = 0;
        // The first field behind the name is number 3.
        for (at, field) in rest.split(u8::is_ascii_whitespace).enumerate().take(22) {
            if at == 0 {
                stat.state = *field.first().filter(|state| state.is_ascii_alphabetic())?;
                continue;
            }
            let slot = match at + 3 {
                9 => {
                    stat.is_kernel = decimal(field)? & PF_KTHREAD != 0;
                    continue;
                }
                12 => &mut stat.major_faults,
                14 => &mut stat.user_ticks,
                15 => &mut stat.system_ticks,
                16 => &mut stat.child_user_ticks,
                17 => &mut stat.child_system_ticks,
                20 => &mut stat.threads,
                22 => &mut stat.start_ticks,
                24 => &mut stat.resident_pages,
                _ => continue,
            };
            *slot = decimal(field)?;
            found += 1;
        }
        (found == 8).then_some(stat)
    }
}

fn stat_totals(text: &str, totals: &mut Totals, system: &mut System) {
    for line in text.lines() {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        // Of the long line of interrupts only the sum at its beginning is looked at.
        let mut numbers = rest.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        match name {
            "cpu" => {
                let all: Vec<u64> = std::iter::from_fn(next).take(8).collect();
                let sum = |of: &[usize]| of.iter().map(|at| all.get(*at).copied()).sum();
                totals.busy_ticks = sum(&[0, 1, 2, 5, 6]);
                totals.interrupt_ticks = sum(&[5, 6]);
                totals.steal_ticks = sum(&[7]);
            }
            "intr" => totals.interrupts = next(),
            "ctxt" => totals.context_switches = next(),
            "processes" => totals.forks = next(),
            "procs_running" => system.running = next(),
            "procs_blocked" => system.blocked = next(),
            "softirq" => {
                totals.soft_interrupts = next();
                // The second kind is the timers'.
                next();
                totals.timers = next();
            }
            _ => {}
        }
    }
}

/// Of each CPU the last three of nine numbers are: time that tasks ran, time that they waited,
/// and how many times one was dispatched.
fn scheduler_totals(text: &str, totals: &mut Totals) {
    for line in text.lines().filter(|line| line.starts_with("cpu")) {
        let mut numbers = line.split_ascii_whitespace().skip(7).map(|word| word.parse::<u64>());
        let (Some(Ok(run_ns)), Some(Ok(_)), Some(Ok(dispatches))) =
            (numbers.next(), numbers.next(), numbers.next())
        else {
            continue;
        };
        let add = |to: &mut Option<u64>, more| *to = Some(to.unwrap_or(0).saturating_add(more));
        add(&mut totals.run_ns, run_ns);
        add(&mut totals.dispatches, dispatches);
        add(&mut totals.cpus, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_that_is_cut_or_no_stat_is_none() {
        let text = b"7 (a) S 1 1 1 0 -1 4194304 9 0 3 0 11 12 13 14 20 0 2 0 150 4096 25 0";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.name.as_str(), stat.state, stat.resident_pages), ("a", b'S', 25));
        for end in 0..text.len() - 4 {
            assert_eq!(Stat::parse(&text[..end]), None, "{end}");
        }
        assert_eq!(Stat::parse(b")("), None);
        let long = [&b"7 ("[..], &[0xff; 64], &text[4..]].concat();
        assert!(Stat::parse(&long).unwrap().name.len() <= MAX_NAME);
    }

    #[test]
    fn totals_are_summed_over_cpus_and_missing_where_the_kernel_has_none() {
        let (mut totals, mut system) = (Totals::default(), System::default());
        stat_totals(
            "cpu  10 1 20 1000 3 4 5 6 0 0\ncpu0 1 1\nintr 77 1 2 3\nctxt 88\nbtime 1\n\
             processes 99\nprocs_running 3\nprocs_blocked 2\nsoftirq 66 1 33 4\n",
            &mut totals,
            &mut system,
        );
        assert_eq!((system.running, system.blocked), (Some(3), Some(2)));
        assert_eq!((totals.busy_ticks, totals.interrupt_ticks), (Some(40), Some(9)));
        assert_eq!((totals.steal_ticks, totals.interrupts), (Some(6), Some(77)));
        assert_eq!((totals.context_switches, totals.forks), (Some(88), Some(99)));
        assert_eq!((totals.soft_interrupts, totals.timers), (Some(66), Some(33)));
        assert_eq!((totals.dispatches, totals.cpus), (None, None));
        scheduler_totals(
            "version 15\ntimestamp 1\ncpu0 0 0 0 0 0 0 500 1 50\ndomain0 3 0\n\
             cpu1 0 0 0 0 0 0 70 1 7\ncpu2 0\n",
            &mut totals,
        );
        assert_eq!((totals.run_ns, totals.dispatches, totals.cpus), (Some(570), Some(57), Some(2)));
    }
}
