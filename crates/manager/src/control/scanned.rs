//! A guest's tasks, as the control socket reports them.
//!
//! Counts are since the guest's boot, the task's start, or the start of the guest's process:
//! a client that wants rates asks twice and takes the difference.

use agent::AskCounts;
use serde::{Deserialize, Serialize};
use wire::Totals;

/// The answer to `scan`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scanned {
    /// The guest's name.
    pub guest: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Counts up with each scan of this guest.
    pub sequence: u32,
    /// The scan whose counts the tasks' earlier ones are; 0 for none.
    pub previous: u32,
    /// What the guest's process has used on the host.
    pub host: HostSide,
    /// What this manager has asked the guest's daemon so far: each wakes it once.
    #[serde(with = "Asks")]
    pub asked: AskCounts,
    /// What the guest's kernel counts of all tasks together.
    #[serde(with = "TotalsRow")]
    pub totals: Totals,
    /// Its tasks, those dispatched most often first.
    pub tasks: Vec<TaskRow>,
}

/// What the threads of a guest's process have used on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSide {
    /// Nanoseconds that its virtual CPUs ran.
    pub vcpu_run_ns: Option<u64>,
    /// Nanoseconds that they were ready and did not run.
    pub vcpu_delay_ns: Option<u64>,
    /// Times that they were dispatched.
    pub vcpu_dispatches: Option<u64>,
    /// Nanoseconds that its other threads ran.
    pub other_run_ns: Option<u64>,
    /// Times that these were dispatched.
    pub other_dispatches: Option<u64>,
}

/// How the counts of questions to a daemon stand in JSON.
#[derive(Serialize, Deserialize)]
#[serde(remote = "AskCounts")]
struct Asks {
    looks: u64,
    samples: u64,
    scans: u64,
}

/// How the counts of all tasks of a guest together stand in JSON.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Totals")]
struct TotalsRow {
    uptime_ms: Option<u64>,
    dispatches: Option<u64>,
    run_ns: Option<u64>,
    cpus: Option<u64>,
    context_switches: Option<u64>,
    forks: Option<u64>,
    interrupts: Option<u64>,
    soft_interrupts: Option<u64>,
    timers: Option<u64>,
    busy_ticks: Option<u64>,
    interrupt_ticks: Option<u64>,
    steal_ticks: Option<u64>,
    tasks: Option<u64>,
    rest_dispatches: Option<u64>,
    scan_us: Option<u64>,
}

/// A task of a guest. Its texts come from the guest: escape them before they are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRow {
    /// Its number.
    pub tid: u32,
    /// The number of its process.
    pub pid: u32,
    /// process, thread or kernel.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The letter of its state.
    pub state: Option<char>,
    /// Where in the kernel it waits.
    pub wchan: Option<String>,
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
    /// Nanoseconds that it ran, as they were at the previous scan.
    pub run_before_ns: Option<u64>,
    /// Times that it was dispatched, as they were at the previous scan.
    pub dispatches_before: Option<u64>,
    /// Its process's memory.
    pub resident_bytes: Option<u64>,
    /// Its faults that had to read.
    pub major_faults: Option<u64>,
    /// Threads of its process.
    pub threads: Option<u64>,
}

impl From<wire::Task> for TaskRow {
    fn from(task: wire::Task) -> TaskRow {
        TaskRow {
            tid: task.tid,
            pid: task.pid,
            kind: task.kind.name().to_owned(),
            name: task.name,
            state: (task.state != 0).then_some(char::from(task.state)),
            wchan: Some(task.wchan).filter(|wchan| !wchan.is_empty()),
            start_ticks: task.start_ticks,
            user_ticks: task.user_ticks,
            system_ticks: task.system_ticks,
            child_user_ticks: task.child_user_ticks,
            child_system_ticks: task.child_system_ticks,
            run_ns: task.run_ns,
            dispatches: task.dispatches,
            run_before_ns: task.run_before_ns,
            dispatches_before: task.dispatches_before,
            resident_bytes: task.resident_kib.map(|kib| kib.saturating_mul(1024)),
            major_faults: task.major_faults,
            threads: task.threads,
        }
    }
}
