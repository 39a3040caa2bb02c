//! Who runs in a guest, as the control socket tells it.
//!
//! Counts are since the guest's boot, the task's start, or the start of the guest's process:
//! a client that wants to know what happened asks twice and takes the difference.

use serde::{Deserialize, Serialize};

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
    pub asked: Asks,
    /// What the guest's kernel counts of all tasks together.
    pub totals: TotalsRow,
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

/// How often a guest's daemon was asked for something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asks {
    /// To look, because its virtual CPUs had run.
    pub looks: u64,
    /// How its memory is.
    pub samples: u64,
    /// Who runs in it.
    pub scans: u64,
}

impl From<agent::AskCounts> for Asks {
    fn from(counts: agent::AskCounts) -> Asks {
        let agent::AskCounts { looks, samples, scans } = counts;
        Asks { looks, samples, scans }
    }
}

/// Counts of all tasks of a guest together, since its boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TotalsRow {
    /// Milliseconds since its boot.
    pub uptime_ms: Option<u64>,
    /// Times that its CPUs were given to a task.
    pub dispatches: Option<u64>,
    /// Nanoseconds that tasks ran.
    pub run_ns: Option<u64>,
    /// CPUs that both are counted of.
    pub cpus: Option<u64>,
    /// Context switches, those to nothing included.
    pub context_switches: Option<u64>,
    /// Tasks that were started.
    pub forks: Option<u64>,
    /// Interrupts.
    pub interrupts: Option<u64>,
    /// Soft interrupts.
    pub soft_interrupts: Option<u64>,
    /// Those of them for timers.
    pub timers: Option<u64>,
    /// Ticks of 10 ms in which CPUs were busy.
    pub busy_ticks: Option<u64>,
    /// Those in interrupts.
    pub interrupt_ticks: Option<u64>,
    /// Those that were stolen.
    pub steal_ticks: Option<u64>,
    /// Tasks that there are.
    pub tasks: Option<u64>,
    /// Dispatches, since the previous scan, of tasks that are not told of.
    pub rest_dispatches: Option<u64>,
    /// Microseconds that the scan took.
    pub scan_us: Option<u64>,
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
    /// Both as they were at the previous scan.
    pub run_before_ns: Option<u64>,
    #[allow(missing_docs, reason = "said above")]
    pub dispatches_before: Option<u64>,
    /// Its process's memory.
    pub resident_bytes: Option<u64>,
    /// Its faults that had to read.
    pub major_faults: Option<u64>,
    /// Threads of its process.
    pub threads: Option<u64>,
}

impl From<wire::Totals> for TotalsRow {
    fn from(told: wire::Totals) -> TotalsRow {
        TotalsRow {
            uptime_ms: told.uptime_ms,
            dispatches: told.dispatches,
            run_ns: told.run_ns,
            cpus: told.cpus,
            context_switches: told.context_switches,
            forks: told.forks,
            interrupts: told.interrupts,
            soft_interrupts: told.soft_interrupts,
            timers: told.timers,
            busy_ticks: told.busy_ticks,
            interrupt_ticks: told.interrupt_ticks,
            steal_ticks: told.steal_ticks,
            tasks: told.tasks,
            rest_dispatches: told.rest_dispatches,
            scan_us: told.scan_us,
        }
    }
}

impl From<wire::Task> for TaskRow {
    fn from(told: wire::Task) -> TaskRow {
        let kind = match told.kind {
            wire::TaskKind::Process => "process",
            wire::TaskKind::Thread => "thread",
            wire::TaskKind::Kernel => "kernel",
        };
        TaskRow {
            tid: told.tid,
            pid: told.pid,
            kind: kind.to_owned(),
            name: told.name,
            state: (told.state != 0).then_some(char::from(told.state)),
            wchan: Some(told.wchan).filter(|wchan| !wchan.is_empty()),
            start_ticks: told.start_ticks,
            user_ticks: told.user_ticks,
            system_ticks: told.system_ticks,
            child_user_ticks: told.child_user_ticks,
            child_system_ticks: told.child_system_ticks,
            run_ns: told.run_ns,
            dispatches: told.dispatches,
            run_before_ns: told.run_before_ns,
            dispatches_before: told.dispatches_before,
            resident_bytes: told.resident_kib.map(|kib| kib.saturating_mul(1024)),
            major_faults: told.major_faults,
            threads: told.threads,
        }
    }
}
