//! Who runs in a guest, and how often: the answer to the question who wakes it.

use crate::body::{Body, MAX_BODY, Reader, Writer, body, place};

/// The longest name of a task, in bytes: the kernel's names have 15, those that it gives its
/// own workers tell their work besides.
pub const MAX_NAME: usize = 32;
/// The tasks in one message; more take more messages.
pub const TASKS_A_PART: usize = (MAX_BODY - HEAD) / TASK;
/// The bytes of a body before its tasks.
const HEAD: usize = 4 + 4 + 1 + 1 + 8 * Totals::NUMBERS + 1;
/// The bytes of the longest task.
const TASK: usize = 4 + 4 + 1 + 1 + 2 * (1 + MAX_NAME) + 8 * Task::NUMBERS;

body! {
    /// A host asks who runs in its guest. The answer has the same number.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Scan {
        /// Comes back with the answer; 0 is not a number.
        pub sequence: u32;
        /// How many tasks to tell of: so many by their dispatches, and so many by their CPU time.
        pub top: u8;
    }
}

base::named! {
    /// What kind of task it is.
    #[derive(Default)]
    pub enum TaskKind {
        /// A process, or its first thread.
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
    /// A task of the guest. Times and counts are since it started; what is not known is `None`.
    /// Children are those of its process that have ended.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Task {
        /// Its number.
        pub tid: u32;
        /// The number of its process.
        pub pid: u32;
        /// What it is.
        pub kind: TaskKind;
        /// The letter of its state, such as `S`; 0 if not known.
        pub state: u8;
        /// Its name, at most [`MAX_NAME`] bytes: its own choice.
        pub name: String, at most MAX_NAME;
        /// Where in the kernel it waits; empty if not known.
        pub wchan: String, at most MAX_NAME;
        numbers:
        /// When it started, in ticks since the boot.
        start_ticks;
        /// Ticks in user mode; of a process, those of all its threads.
        user_ticks;
        /// The same in the kernel.
        system_ticks;
        /// Those of children that have ended, in user mode.
        child_user_ticks;
        /// Those of children that have ended, in the kernel.
        child_system_ticks;
        /// Nanoseconds that it ran.
        run_ns;
        /// Times that it was dispatched.
        dispatches;
        /// Nanoseconds that it had run when the previous question was answered.
        run_before_ns;
        /// Times that it had been dispatched by then.
        dispatches_before;
        /// Its process's memory, in KiB.
        resident_kib;
        /// Its faults that had to read.
        major_faults;
        /// Threads of its process.
        threads;
    }
}

body! {
    /// What the guest's kernel counts of all tasks together, since its boot.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Totals {
        numbers:
        /// Milliseconds since the guest's boot, with those that it was suspended.
        uptime_ms;
        /// Times that its CPUs were given to a task, those included that have ended.
        dispatches;
        /// Nanoseconds that tasks ran.
        run_ns;
        /// Context switches: to tasks, and to nothing.
        context_switches;
        /// Tasks that were started.
        forks;
        /// Interrupts.
        interrupts;
        /// Soft interrupts.
        soft_interrupts;
        /// Those of them for timers.
        timers;
        /// Ticks in which CPUs were busy, interrupts included.
        busy_ticks;
        /// Ticks in interrupts.
        interrupt_ticks;
        /// Ticks that were stolen.
        steal_ticks;
        /// Tasks that there are.
        tasks;
        /// CPUs that the first two are counted of: those that are online.
        cpus;
        /// Dispatches since the previous question of those tasks that are not told of.
        rest_dispatches;
        /// Microseconds that it took to find out.
        scan_us;
    }
}

body! {
    /// A piece of the answer to a [`Scan`]. Each piece has the totals.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Processes {
        /// The question that it answers.
        pub sequence: u32;
        /// The question before, to whose answer the tasks' earlier counts belong; 0 for none.
        pub previous: u32;
        /// Counts up from 0.
        pub part: u8;
        /// Whether it is the last one.
        pub last: bool;
        /// Counts of all tasks.
        pub totals: Totals;
        /// Tasks, at most [`TASKS_A_PART`].
        pub tasks: Vec<Task>;
    }
}

/// The tasks of a part, with their number before them.
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
