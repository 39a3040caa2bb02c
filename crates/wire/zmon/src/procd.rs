//! Records of mon_procd: a guest's processes, once a minute.

use crate::layout::{Layout, record};
use crate::monwriter::{Function, Head, Series, Stamp};
use crate::{Error, texts};

/// Application number of mon_procd.
pub const APPLICATION: u16 = 2;
/// Record number of the summary of the guest.
pub const SUMMARY: u8 = 0;
/// Record number of a task.
pub const TASK: u8 = 1;
/// Possible lengths of a task's write, head included. The first length is used if the data fit, and
/// otherwise the second length. The modification number is even for the first length, and odd for
/// the second.
pub const TASK_BYTES: [usize; 2] = [512, 1_500];
/// Nanoseconds in a hundredth of a second, the unit of tasks' times.
pub const NS_PER_CENTI: u64 = 10_000_000;
/// Maximum number of tasks written.
pub const TASKS_MAX: usize = 100;

record! {
    /// Summary of the guest: record 0. Percentages are in hundredths, sizes in KiB.
    Summary, 166, {
        uptime_s: u64 = 0;
        users: u32 = 8;
        /// Load averages as text: `0.15`.
        load_1: [u8; 6] = 12;
        load_5: [u8; 6] = 18;
        load_15: [u8; 6] = 24;
        tasks: u32 = 30;
        running: u32 = 34;
        sleeping: u32 = 38;
        stopped: u32 = 42;
        zombies: u32 = 46;
        cpus: u32 = 50;
        user: u16 = 54;
        nice: u16 = 56;
        system: u16 = 58;
        idle: u16 = 60;
        io_wait: u16 = 62;
        irq: u16 = 64;
        soft_irq: u16 = 66;
        steal: u16 = 68;
        memory_total: u64 = 70;
        memory_used: u64 = 78;
        memory_free: u64 = 86;
        buffers: u64 = 94;
        paged_in: u64 = 102;
        paged_out: u64 = 110;
        swap_total: u64 = 118;
        swap_used: u64 = 126;
        swap_free: u64 = 134;
        cached: u64 = 142;
        swapped_in: u64 = 150;
        swapped_out: u64 = 158;
    }
}

record! {
    /// A task: record 1. Six texts follow, each after its length.
    Numbers, 111, {
        pid: u32 = 0;
        parent: u32 = 4;
        /// Last 16 bits of the user id.
        user: u32 = 8;
        terminal: u16 = 12;
        priority: i16 = 14;
        nice: i16 = 16;
        cpu: u32 = 18;
        /// Share of all CPUs and of all memory, in hundredths of a percent.
        cpu_percent: u16 = 22;
        memory_percent: u16 = 24;
        /// CPU time in hundredths of a second; the second field includes children.
        time: u64 = 26;
        time_of_all: u64 = 34;
        size: u64 = 42;
        /// Size minus the resident part, which does not measure swap.
        not_resident: u64 = 50;
        resident: u64 = 58;
        text: u64 = 66;
        data: u64 = 74;
        shared: u64 = 82;
        dirty: u64 = 90;
        major_faults: u64 = 98;
        state: u8 = 106;
        flags: u32 = 107;
    }
}

/// A task with its texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Numeric fields.
    pub numbers: Numbers,
    /// Real user, user, group, wait channel, command, command line.
    pub texts: [Vec<u8>; 6],
}

impl Task {
    /// Index of the command in the texts.
    pub const COMMAND: usize = 4;

    /// Reads a task's data.
    pub fn read(bytes: &[u8]) -> Result<Task, Error> {
        let numbers = Numbers::read(bytes)?;
        let (texts, _) = texts::read(&bytes[Numbers::BYTES..], "Task")?;
        Ok(Task { numbers, texts })
    }

    /// Returns a task's data. The texts share the record's maximum length, and the last one is cut.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.numbers.bytes();
        let most = TASK_BYTES[1] - Head::BYTES - Stamp::BYTES;
        texts::write(&self.texts, most, &mut bytes);
        bytes
    }
}

/// A record of mon_procd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Summary of the guest.
    Summary(Box<Summary>),
    /// A task.
    Task(Box<Task>),
}

impl Record {
    /// Reads the data after the head. The record number comes from the head or a product's name.
    pub fn read(record: u8, data: &[u8]) -> Result<(Stamp, Record), Error> {
        let (stamp, data) = Stamp::split(data)?;
        let record = match record {
            SUMMARY => Record::Summary(Box::new(Summary::read(data)?)),
            TASK => Record::Task(Box::new(Task::read(data)?)),
            other => {
                let (value, wanted) = (other.into(), "mon_procd writes 0 and 1");
                return Err(Error::Wrong { record: "Record", field: "record", value, wanted });
            }
        };
        Ok((stamp, record))
    }

    /// Returns a whole write to the device. Tasks are identified by their place in a series.
    pub fn write(&self, seconds: u64, tasks: &mut Series) -> Vec<u8> {
        match self {
            Record::Summary(summary) => Head::of(Function::Start, APPLICATION, SUMMARY, 0)
                .with(&Stamp::with(seconds, &summary.bytes(), 0)),
            Record::Task(task) => {
                let data = task.bytes();
                let is_long = Head::BYTES + Stamp::BYTES + data.len() > TASK_BYTES[0];
                let least = TASK_BYTES[usize::from(is_long)] - Head::BYTES;
                Head::of(Function::Start, APPLICATION, TASK, tasks.next(is_long))
                    .with(&Stamp::with(seconds, &data, least))
            }
        }
    }
}
