//! The tasks of a guest and their dispatches, which show the tasks that wake the guest.

use crate::body::{Body, MAX_BODY, Reader, Writer, body, place};

/// Maximum length of a task's name, in bytes. The kernel's names have 15 bytes; names of kernel
/// workers are longer, because they include the work.
pub const MAX_NAME: usize = 32;
/// Number of tasks in one message; more tasks take more messages.
pub const TASKS_A_PART: usize = (MAX_BODY - HEAD) / TASK;
/// The bytes of a body before its tasks.
const HEAD: usize = 4 + 4 + 1 + 1 + 8 * Totals::NUMBERS + 1;
/// The bytes of the longest task.
const TASK: usize = 4 + 4 + 1 + 1 + 2 * (1 + MAX_NAME) + 8 * Task::NUMBERS;

body! {
    /// A host's request for the tasks of its guest. The response has the same number.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Scan {
        /// Returned with the response; 0 is not allowed.
        pub sequence: u32;
        /// Number of tasks to report: this many with the most dispatches, and this many with the
        /// most CPU time.
        pub top: u8;
    }
}

base::named! {
    /// The kind of a task.
    #[derive(Default)]
    pub enum TaskKind {
        /// A process, or its main thread.
        #[default]
        Process = "process",
        /// Another thread of a process.
        Thread = "thread",
        /// A thread of the kernel.
        Kernel = "kernel",
    }
}

place!(TaskKind);

body! {
    /// A task of the guest. Times and counts are since the task's start; `None` if unknown.
    /// Children are the ended child processes of the task's process.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Task {
        /// The task's id.
        pub tid: u32;
        /// The id of the task's process.
        pub pid: u32;
        /// The task's kind.
        pub kind: TaskKind;
        /// The letter of the task's state, such as `S`; 0 if unknown.
        pub state: u8;
        /// The name, at most [`MAX_NAME`] bytes: chosen by the task.
        pub name: String, at most MAX_NAME;
        /// The kernel function in which the task waits; empty if unknown.
        pub wchan: String, at most MAX_NAME;
        numbers:
        /// Start time, in ticks since the boot.
        start_ticks;
        /// Ticks in user mode; for a process, the ticks of all its threads.
        user_ticks;
        /// Ticks in the kernel; for a process, the ticks of all its threads.
        system_ticks;
        /// User-mode ticks of children that have ended.
        child_user_ticks;
        /// Kernel ticks of children that have ended.
        child_system_ticks;
        /// Nanoseconds that the task ran.
        run_ns;
        /// Dispatches of the task.
        dispatches;
        /// Nanoseconds that the task had run when the previous request was answered.
        run_before_ns;
        /// Dispatches of the task when the previous request was answered.
        dispatches_before;
        /// Resident memory of the task's process, in KiB.
        resident_kib;
        /// Page faults that had to read.
        major_faults;
        /// Threads of the task's process.
        threads;
    }
}

body! {
    /// The kernel's counts of all tasks together, since the guest's boot.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Totals {
        numbers:
        /// Milliseconds since the guest's boot, including suspended time.
        uptime_ms;
        /// Dispatches of tasks on the guest's CPUs, including tasks that have ended.
        dispatches;
        /// Nanoseconds that tasks ran.
        run_ns;
        /// Context switches: to tasks, and to idle.
        context_switches;
        /// Tasks that were started.
        forks;
        /// Interrupts.
        interrupts;
        /// Soft interrupts.
        soft_interrupts;
        /// Soft interrupts for timers.
        timers;
        /// Ticks in which CPUs were busy, interrupts included.
        busy_ticks;
        /// Ticks in interrupts.
        interrupt_ticks;
        /// Ticks that were stolen.
        steal_ticks;
        /// Tasks that exist.
        tasks;
        /// CPUs that `dispatches` and `run_ns` count: the online CPUs.
        cpus;
        /// Dispatches of all unreported tasks since the previous request.
        rest_dispatches;
        /// Microseconds that the scan took.
        scan_us;
    }
}

body! {
    /// A part of the response to a [`Scan`]. Each part has the totals.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Processes {
        /// The number of the answered request.
        pub sequence: u32;
        /// The number of the previous request, to which the tasks' earlier counts belong; 0 for
        /// none.
        pub previous: u32;
        /// The part's index, from 0.
        pub part: u8;
        /// Set in the last part.
        pub last: bool;
        /// Counts of all tasks.
        pub totals: Totals;
        /// Tasks, at most [`TASKS_A_PART`].
        pub tasks: Vec<Task>;
    }
}

/// The tasks of a part, preceded by their number.
impl Body for Vec<Task> {
    fn write(&self, out: &mut Writer<'_>) {
        let count = self.len().min(TASKS_A_PART);
        out.u8(count as u8);
        self[..count].iter().for_each(|task| task.write(out));
    }

    fn read(from: &mut Reader<'_>) -> Option<Vec<Task>> {
        let count = Some(usize::from(from.u8()?)).filter(|count| *count <= TASKS_A_PART)?;
        let has_a_state = |task: &Task| task.state == 0 || task.state.is_ascii_alphabetic();
        (0..count).map(|_| Task::read(from).filter(has_a_state)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Processes {
        let mut task = Task {
            tid: 7,
            pid: 6,
            kind: TaskKind::Thread,
            state: b'S',
            name: "n".repeat(MAX_NAME),
            wchan: "w".repeat(MAX_NAME),
            ..Task::default()
        };
        for (value, field) in task.numbers().into_iter().enumerate() {
            *field = (value % 3 > 0).then_some(value as u64);
        }
        Processes { sequence: 3, last: true, tasks: vec![task; TASKS_A_PART], ..Default::default() }
    }

    #[test]
    fn the_longest_part_is_within_a_frame_and_comes_back() {
        let mut body = Vec::new();
        full().write(&mut Writer(&mut body));
        assert!(body.len() <= MAX_BODY && body.len() > MAX_BODY - TASK, "{}", body.len());
        assert_eq!(Processes::read(&mut Reader::new(&body)), Some(full()));
        for short in 0..body.len() {
            assert_eq!(Processes::read(&mut Reader::new(&body[..short])), None);
        }
    }

    #[test]
    fn more_tasks_or_longer_names_than_there_is_room_for_are_cut() {
        let mut much = full();
        much.tasks.push(Task::default());
        much.tasks[0].name.push('x');
        let mut body = Vec::new();
        much.write(&mut Writer(&mut body));
        assert_eq!(Processes::read(&mut Reader::new(&body)), Some(full()));
        body[HEAD - 1] = TASKS_A_PART as u8 + 1;
        assert_eq!(Processes::read(&mut Reader::new(&body)), None);
    }
}
