//! A guest's tasks, assembled from the parts of a daemon's answer.

use wire::{Processes, Scan, Task, Totals};

/// Number of tasks requested from the top of each ranking: by dispatches, and by CPU time. In an
/// idle guest fewer tasks are active.
const TOP: u8 = 100;
/// Maximum number of tasks in an answer, whatever was requested.
const TASKS_MAX: usize = 512;

/// A complete answer of a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskScan {
    /// Number of the request.
    pub sequence: u32,
    /// Number of the previous request.
    pub previous: u32,
    /// Counts of all tasks.
    pub totals: Totals,
    pub tasks: Vec<Task>,
}

/// The parts of an answer received so far.
#[derive(Debug, Default)]
pub(crate) struct TaskGather {
    sequence: u32,
    next_part: u8,
    open: Option<TaskScan>,
}

impl TaskGather {
    /// Starts the next request. An answer to an older request is no longer expected.
    pub(crate) fn begin(&mut self) -> Scan {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        self.next_part = 0;
        self.open = Some(TaskScan { sequence: self.sequence, ..TaskScan::default() });
        Scan { sequence: self.sequence, top: TOP }
    }

    /// Handles a part, and returns the complete answer with the last part. Unexpected, misordered
    /// or excess parts are dropped, together with the request.
    pub(crate) fn take(&mut self, part: Processes) -> Option<TaskScan> {
        let mut open = self.open.take().filter(|open| open.sequence == part.sequence)?;
        if part.part != self.next_part || open.tasks.len() + part.tasks.len() > TASKS_MAX {
            return None;
        }
        self.next_part = self.next_part.saturating_add(1);
        (open.previous, open.totals) = (part.previous, part.totals);
        open.tasks.extend(part.tasks);
        if part.last {
            return Some(open);
        }
        self.open = Some(open);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(sequence: u32, part: u8, tids: &[u32], last: bool) -> Processes {
        let tasks = tids.iter().map(|tid| Task { tid: *tid, pid: *tid, ..Task::default() });
        Processes { sequence, part, last, tasks: tasks.collect(), ..Processes::default() }
    }

    #[test]
    fn parts_make_a_whole_and_what_is_out_of_order_makes_none() {
        let mut gather = TaskGather::default();
        assert_eq!(gather.take(part(0, 0, &[1], true)), None, "there was no request");
        assert_eq!(gather.begin().sequence, 1);
        assert_eq!(gather.take(part(1, 0, &[1, 2], false)), None);
        let whole = gather.take(part(1, 1, &[3], true)).unwrap();
        assert_eq!(whole.tasks.iter().map(|task| task.tid).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(gather.take(part(1, 1, &[3], true)), None, "it is answered");

        assert_eq!(gather.begin().sequence, 2);
        assert_eq!(gather.take(part(2, 1, &[3], true)), None, "the first part is lost");
        assert_eq!(gather.take(part(2, 0, &[3], true)), None);
        gather.begin();
        assert_eq!(gather.take(part(2, 0, &[3], true)), None, "an older question's");
    }

    #[test]
    fn an_answer_without_end_is_dropped() {
        let mut gather = TaskGather::default();
        let sequence = gather.begin().sequence;
        let many: Vec<u32> = (0..15).collect();
        for number in 0..=255 {
            assert_eq!(gather.take(part(sequence, number, &many, false)), None);
        }
        assert!(gather.open.is_none());
    }
}
