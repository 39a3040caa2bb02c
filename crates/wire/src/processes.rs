//! Who runs in a guest, and how often: the answer to the question who wakes it.

use crate::body::{Reader, Writer};
use crate::frame::MAX_BODY;

/// The longest name of a task, in bytes: the kernel's names have 15, those that it gives its
/// own workers tell their work besides.
pub const MAX_NAME: usize = 32;
/// The tasks in one message; more take more messages.
pub const TASKS_A_PART: usize = (MAX_BODY - HEAD) / TASK;
/// The bytes of a body before its tasks.
const HEAD: usize = 4 + 4 + 1 + 1 + 8 * Totals::FIELDS + 1;
/// The bytes of the longest task.
const TASK: usize = 4 + 4 + 1 + 1 + 2 * (1 + MAX_NAME) + 8 * Task::FIELDS;
/// Stands for what is missing. No counter gets there in the life of a machine.
const MISSING: u64 = u64::MAX;

/// A host asks who runs in its guest. The answer has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Comes back with the answer; 0 is not a number.
    pub sequence: u32,
    /// How many tasks to tell of: so many by their dispatches, and so many by their CPU time.
    pub top: u8,
}

/// What kind of task it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskKind {
    /// A process, or its first thread.
    #[default]
    Process,
    /// Another thread of a process.
    Thread,
    /// A thread of the kernel.
    Kernel,
}

impl TaskKind {
    const ALL: [TaskKind; 3] = [TaskKind::Process, TaskKind::Thread, TaskKind::Kernel];
}

/// A task of the guest. Times and counts are since it started; what is not known is `None`.
/// Children are those of its process that have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Its number.
    pub tid: u32,
    /// The number of its process.
    pub pid: u32,
    /// What it is.
    pub kind: TaskKind,
    /// The letter of its state, such as `S`; 0 if not known.
    pub state: u8,
    /// Its name, at most [`MAX_NAME`] bytes: its own choice.
    pub name: String,
    /// Where in the kernel it waits; empty if not known.
    pub wchan: String,
    /// When it started, in ticks since the boot.
    pub start_ticks: Option<u64>,
    /// Ticks in user mode; of a process, those of all its threads.
    pub user_ticks: Option<u64>,
    /// The same in the kernel.
    pub system_ticks: Option<u64>,
    /// Those of children that have ended, in user mode.
    pub child_user_ticks: Option<u64>,
    /// Those of children that have ended, in the kernel.
    pub child_system_ticks: Option<u64>,
    /// Nanoseconds that it ran.
    pub run_ns: Option<u64>,
    /// Times that it was dispatched.
    pub dispatches: Option<u64>,
    /// Nanoseconds that it had run when the previous question was answered.
    pub run_before_ns: Option<u64>,
    /// Times that it had been dispatched by then.
    pub dispatches_before: Option<u64>,
    /// Its process's memory, in KiB.
    pub resident_kib: Option<u64>,
    /// Its faults that had to read.
    pub major_faults: Option<u64>,
    /// Threads of its process.
    pub threads: Option<u64>,
}

/// What the guest's kernel counts of all tasks together, since its boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Milliseconds since the guest's boot, with those that it was suspended.
    pub uptime_ms: Option<u64>,
    /// Times that its CPUs were given to a task, those included that have ended.
    pub dispatches: Option<u64>,
    /// Nanoseconds that tasks ran.
    pub run_ns: Option<u64>,
    /// Context switches: to tasks, and to nothing.
    pub context_switches: Option<u64>,
    /// Tasks that were started.
    pub forks: Option<u64>,
    /// Interrupts.
    pub interrupts: Option<u64>,
    /// Soft interrupts.
    pub soft_interrupts: Option<u64>,
    /// Those of them for timers.
    pub timers: Option<u64>,
    /// Ticks in which CPUs were busy, interrupts included.
    pub busy_ticks: Option<u64>,
    /// Ticks in interrupts.
    pub interrupt_ticks: Option<u64>,
    /// Ticks that were stolen.
    pub steal_ticks: Option<u64>,
    /// Tasks that there are.
    pub tasks: Option<u64>,
    /// CPUs that the first two are counted of: those that are online.
    pub cpus: Option<u64>,
    /// Dispatches since the previous question of those tasks that are not told of.
    pub rest_dispatches: Option<u64>,
    /// Microseconds that it took to find out.
    pub scan_us: Option<u64>,
}

/// A piece of the answer to a [`Scan`]. Each piece has the totals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    /// The question that it answers.
    pub sequence: u32,
    /// The question before, to whose answer the tasks' earlier counts belong; 0 for none.
    pub previous: u32,
    /// Counts up from 0.
    pub part: u8,
    /// Whether it is the last one.
    pub last: bool,
    /// Counts of all tasks.
    pub totals: Totals,
    /// Tasks, at most [`TASKS_A_PART`].
    pub tasks: Vec<Task>,
}

impl Totals {
    const FIELDS: usize = 15;

    /// The numbers in the order in which they are sent.
    fn fields(&mut self) -> [&mut Option<u64>; Totals::FIELDS] {
        [
            &mut self.uptime_ms,
            &mut self.dispatches,
            &mut self.run_ns,
            &mut self.context_switches,
            &mut self.forks,
            &mut self.interrupts,
            &mut self.soft_interrupts,
            &mut self.timers,
            &mut self.busy_ticks,
            &mut self.interrupt_ticks,
            &mut self.steal_ticks,
            &mut self.tasks,
            &mut self.cpus,
            &mut self.rest_dispatches,
            &mut self.scan_us,
        ]
    }
}

impl Task {
    const FIELDS: usize = 12;

    fn fields(&mut self) -> [&mut Option<u64>; Task::FIELDS] {
        [
            &mut self.start_ticks,
            &mut self.user_ticks,
            &mut self.system_ticks,
            &mut self.child_user_ticks,
            &mut self.child_system_ticks,
            &mut self.run_ns,
            &mut self.dispatches,
            &mut self.run_before_ns,
            &mut self.dispatches_before,
            &mut self.resident_kib,
            &mut self.major_faults,
            &mut self.threads,
        ]
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.tid);
        out.u32(self.pid);
        out.u8(self.kind as u8);
        out.u8(self.state);
        out.text_within(&self.name, MAX_NAME);
        out.text_within(&self.wchan, MAX_NAME);
        // The fields are listed for writing into them; a task is small enough to be copied.
        for field in self.clone().fields() {
            out.u64(field.unwrap_or(MISSING));
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Task> {
        let mut task = Task {
            tid: from.u32()?,
            pid: from.u32()?,
            kind: *TaskKind::ALL.get(usize::from(from.u8()?))?,
            state: from.u8().filter(|state| *state == 0 || state.is_ascii_alphabetic())?,
            name: from.text_within(MAX_NAME)?,
            wchan: from.text_within(MAX_NAME)?,
            ..Task::default()
        };
        read_fields(from, task.fields())?;
        Some(task)
    }
}

fn read_fields<const N: usize>(from: &mut Reader<'_>, to: [&mut Option<u64>; N]) -> Option<()> {
    for field in to {
        *field = Some(from.u64()?).filter(|value| *value != MISSING);
    }
    Some(())
}

impl Processes {
    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.sequence);
        out.u32(self.previous);
        out.u8(self.part);
        out.u8(u8::from(self.last));
        let mut totals = self.totals;
        for field in totals.fields() {
            out.u64(field.unwrap_or(MISSING));
        }
        let count = self.tasks.len().min(TASKS_A_PART);
        out.u8(count as u8);
        self.tasks[..count].iter().for_each(|task| task.write(out));
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Option<Processes> {
        let mut message = Processes {
            sequence: from.u32()?,
            previous: from.u32()?,
            part: from.u8()?,
            last: from.flag()?,
            ..Processes::default()
        };
        read_fields(from, message.totals.fields())?;
        let count = usize::from(from.u8()?);
        if count > TASKS_A_PART {
            return None;
        }
        message.tasks = (0..count).map(|_| Task::read(from)).collect::<Option<_>>()?;
        Some(message)
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
        for (value, field) in task.fields().into_iter().enumerate() {
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
