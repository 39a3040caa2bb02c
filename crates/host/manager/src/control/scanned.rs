//! A guest's tasks, as the control socket reports them.
//!
//! Counts begin at the guest's boot, the task's start, or the start of the guest's process. A
//! client computes rates from two responses.

use agent::AskCounts;
use serde::{Deserialize, Serialize};
use wire::Totals;

/// Response to `scan`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scanned {
    /// Name of the guest.
    pub guest: String,
    /// Time of the scan, in milliseconds since 1970.
    pub at_ms: i64,
    /// Number of this scan among the guest's scans.
    pub sequence: u32,
    /// Number of the scan with the tasks' earlier counts; 0 for none.
    pub previous: u32,
    /// Usage of the guest's process on the host.
    pub host: HostSide,
    /// Requests from this manager to the guest's daemon so far. Each request wakes the daemon once.
    #[serde(with = "Asks")]
    pub asked: AskCounts,
    /// Counts of the guest's kernel for all tasks together.
    #[serde(with = "TotalsRow")]
    pub totals: Totals,
    /// Tasks of the guest, most dispatches first.
    pub tasks: Vec<TaskRow>,
}

/// Usage of the threads of a guest's process on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSide {
    /// CPU time of the virtual CPUs, in nanoseconds.
    pub vcpu_run_ns: Option<u64>,
    /// Time for which virtual CPUs were ready and did not run, in nanoseconds.
    pub vcpu_delay_ns: Option<u64>,
    /// Dispatches of the virtual CPUs.
    pub vcpu_dispatches: Option<u64>,
    /// CPU time of the other threads, in nanoseconds.
    pub other_run_ns: Option<u64>,
    /// Dispatches of the other threads.
    pub other_dispatches: Option<u64>,
}

/// Counts of requests to a daemon, in JSON.
#[derive(Serialize, Deserialize)]
#[serde(remote = "AskCounts")]
struct Asks {
    looks: u64,
    samples: u64,
    scans: u64,
}

/// Counts of all tasks of a guest together, in JSON.
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

/// A task of a guest. Its texts come from the guest, so escape them before display.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRow {
    /// Thread ID of the task.
    pub tid: u32,
    /// Process ID of the task.
    pub pid: u32,
    /// Kind: process, thread or kernel.
    pub kind: String,
    pub name: String,
    /// Letter of the task's state.
    pub state: Option<char>,
    /// Kernel function in which the task waits.
    pub wchan: Option<String>,
    /// Start time, in ticks since the boot.
    pub start_ticks: Option<u64>,
    /// Ticks in user mode; for a process, of all its threads.
    pub user_ticks: Option<u64>,
    /// Ticks in the kernel; for a process, of all its threads.
    pub system_ticks: Option<u64>,
    /// Ticks of ended children in user mode.
    pub child_user_ticks: Option<u64>,
    /// Ticks of ended children in the kernel.
    pub child_system_ticks: Option<u64>,
    /// CPU time, in nanoseconds.
    pub run_ns: Option<u64>,
    /// Number of dispatches.
    pub dispatches: Option<u64>,
    /// CPU time at the previous scan, in nanoseconds.
    pub run_before_ns: Option<u64>,
    /// Number of dispatches at the previous scan.
    pub dispatches_before: Option<u64>,
    /// Resident memory of the task's process.
    pub resident_bytes: Option<u64>,
    /// Major faults of the task.
    pub major_faults: Option<u64>,
    /// Threads of the task's process.
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
