//! The counts of the whole system in /proc/stat, without the lines of single CPUs.

use super::stat::{Ticks, all_cpus};
use super::{lines, number, words};

/// Counts since the boot; `None` if this kernel does not show the count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemCounts {
    /// The times of all CPUs together.
    pub cpu: Option<Ticks>,
    /// Interrupts.
    pub interrupts: Option<u64>,
    /// Switches from one task to another.
    pub context_switches: Option<u64>,
    /// Tasks that were started.
    pub forks: Option<u64>,
    /// Tasks that can run now.
    pub running: Option<u64>,
    /// Tasks that wait for I/O now.
    pub blocked: Option<u64>,
    /// Soft interrupts.
    pub soft_interrupts: Option<u64>,
    /// Soft interrupts of timers.
    pub timers: Option<u64>,
}

/// Parses the text of the file.
pub fn parse(text: &[u8]) -> SystemCounts {
    let mut counts = SystemCounts::default();
    for line in lines(text) {
        // Of the long line of interrupts only the sum at its beginning is read.
        let mut words = words(line);
        let name = words.next().unwrap_or_default();
        let mut next = || number(words.next()?);
        match name {
            b"cpu" => counts.cpu = all_cpus(line),
            b"intr" => counts.interrupts = next(),
            b"ctxt" => counts.context_switches = next(),
            b"processes" => counts.forks = next(),
            b"procs_running" => counts.running = next(),
            b"procs_blocked" => counts.blocked = next(),
            b"softirq" => {
                counts.soft_interrupts = next();
                // The second kind of soft interrupts is the timers.
                next();
                counts.timers = next();
            }
            _ => {}
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_is_that_of_its_line() {
        let counts = parse(
            b"cpu  10 1 20 1000 3 4 5 6 0 0\ncpu0 1 1\nintr 77 1 2 3\nctxt 88\nbtime 1\n\
              processes 99\nprocs_running 3\nprocs_blocked 2\nsoftirq 66 1 33 4\n",
        );
        assert_eq!(counts.cpu, Some([10, 1, 20, 1000, 3, 4, 5, 6, 0, 0]));
        assert_eq!((counts.interrupts, counts.context_switches), (Some(77), Some(88)));
        assert_eq!((counts.forks, counts.running, counts.blocked), (Some(99), Some(3), Some(2)));
        assert_eq!((counts.soft_interrupts, counts.timers), (Some(66), Some(33)));
        assert_eq!(parse(b"cpu 1 2\nintr x\nctxt\n"), SystemCounts::default());
    }
}
