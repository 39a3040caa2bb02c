//! The file schedstat of a process, of a thread, and of the whole system.

use super::{lines, number, numbers, words};

/// A task's counts since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedstat {
    /// Nanoseconds that the task ran.
    pub run_ns: u64,
    /// Nanoseconds that the task was runnable and waited for a CPU.
    pub delay_ns: u64,
    /// Number of times that the task got a CPU.
    pub dispatches: u64,
}

/// Parses a task's counts.
pub fn parse(text: &[u8]) -> Option<Schedstat> {
    let [run_ns, delay_ns, dispatches] = numbers(text)?;
    Some(Schedstat { run_ns, delay_ns, dispatches })
}

/// Returns the sum of all CPUs in /proc/schedstat, and the number of CPUs. The last three of a
/// CPU's nine numbers are the counts of its tasks. `None` if the text has no line of a CPU, because
/// not every kernel provides the file.
pub fn all_cpus(text: &[u8]) -> Option<(Schedstat, u64)> {
    let mut found = None;
    for line in lines(text).filter(|line| line.starts_with(b"cpu")) {
        let mut last = words(line).skip(7).map(number);
        let (Some(Some(run)), Some(Some(delay)), Some(Some(count))) =
            (last.next(), last.next(), last.next())
        else {
            continue;
        };
        let (sum, cpus): &mut (Schedstat, u64) = found.get_or_insert_default();
        sum.run_ns = sum.run_ns.saturating_add(run);
        sum.delay_ns = sum.delay_ns.saturating_add(delay);
        sum.dispatches = sum.dispatches.saturating_add(count);
        *cpus = cpus.saturating_add(1);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_three_numbers() {
        let expected = Schedstat { run_ns: 123_456, delay_ns: 789, dispatches: 42 };
        assert_eq!(parse(b"123456 789 42\n"), Some(expected));
        for text in [&b"1 2"[..], b"\xff\xff", b"-1 2 3", b""] {
            assert_eq!(parse(text), None);
        }
    }

    #[test]
    fn cpus_are_added_up_and_what_is_no_cpu_is_left_out() {
        let text = b"version 15\ntimestamp 1\ncpu0 0 0 0 0 0 0 500 1 50\ndomain0 3 0\n\
                     cpu1 0 0 0 0 0 0 70 1 7\ncpu2 0\n";
        let sum = Schedstat { run_ns: 570, delay_ns: 2, dispatches: 57 };
        assert_eq!(all_cpus(text), Some((sum, 2)));
        assert_eq!(all_cpus(b"version 15\n"), None);
    }
}
