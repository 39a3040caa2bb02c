//! The names of counters.

use super::host_counter::HostCounter;
use base::named;
use std::fmt;

named!(
    /// The fields of the `cpu` line of /proc/stat, in the order of the line, and their sum.
    pub enum CpuField {
        /// Time in user mode, which includes `guest`.
        User = "user",
        /// Time of niced processes in user mode, which includes `guest_nice`.
        Nice = "nice",
        /// Time in the kernel.
        System = "system",
        /// Idle time.
        Idle = "idle",
        /// Idle time with a read or write outstanding.
        Iowait = "iowait",
        /// Time in interrupts.
        Irq = "irq",
        /// Time in soft interrupts.
        Softirq = "softirq",
        /// Time in which the CPU was ready to run while the hypervisor ran something else.
        Steal = "steal",
        /// Time running a virtual CPU.
        Guest = "guest",
        /// Time running a niced virtual CPU.
        GuestNice = "guest_nice",
        /// The sum of all ten fields. Guest time counts twice, as in the original daemon.
        TotalTicks = "total_ticks",
    }
);

named!(
    /// The resources that have pressure stall information.
    pub enum PsiResource {
        /// CPU.
        Cpu = "cpu",
        /// Memory.
        Memory = "memory",
        /// I/O.
        Io = "io",
    }
);

named!(
    /// The two lines of a pressure file.
    pub enum PsiLine {
        /// At least one task was stalled.
        Some = "some",
        /// All non-idle tasks were stalled at once.
        Full = "full",
    }
);

named!(
    /// The fields of a line of a pressure file.
    pub enum PsiField {
        /// Share of the last 10 s, in percent.
        Avg10 = "avg10",
        /// Share of the last 60 s, in percent.
        Avg60 = "avg60",
        /// Share of the last 300 s, in percent.
        Avg300 = "avg300",
        /// Stall time since boot, in microseconds.
        Total = "total",
    }
);

/// A value that can be read once an interval.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counter {
    /// Seconds since the epoch, with microseconds.
    Time,
    /// CPUs online.
    OnlineCpus,
    /// First field of /proc/loadavg.
    LoadAvg,
    /// Fourth field of /proc/loadavg: tasks that can run now.
    RunnableProc,
    /// A field of the `cpu` line of /proc/stat, in ticks.
    Cpu(CpuField),
    /// A line of /proc/meminfo, in KiB if it has a unit.
    Meminfo(Box<str>),
    /// A line of /proc/vmstat.
    Vmstat(Box<str>),
    /// A field of /proc/pressure.
    Psi(PsiResource, PsiLine, PsiField),
    /// A value that the host's manager derives. No kernel shows this value, and no reader fills it
    /// in.
    Host(HostCounter),
}

impl Counter {
    /// Returns the counter of a line of /proc/meminfo.
    pub fn meminfo(name: &str) -> Counter {
        Counter::Meminfo(name.into())
    }

    /// Returns the counter of a line of /proc/vmstat.
    pub fn vmstat(name: &str) -> Counter {
        Counter::Vmstat(name.into())
    }

    /// Returns true if the kernel only increases the counter. A later reading minus an earlier
    /// reading is then never negative.
    pub fn is_monotonic(&self) -> bool {
        match self {
            Counter::Time | Counter::Cpu(_) => true,
            Counter::Psi(_, _, field) => *field == PsiField::Total,
            // In /proc/vmstat, names of sizes in pages begin with "nr_". All other lines count
            // events.
            Counter::Vmstat(name) => !name.starts_with("nr_"),
            Counter::OnlineCpus | Counter::LoadAvg | Counter::RunnableProc => false,
            Counter::Meminfo(_) | Counter::Host(_) => false,
        }
    }
}

/// The counter as the rule language writes it.
impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Counter::Time => f.write_str("time"),
            Counter::OnlineCpus => f.write_str("onumcpus"),
            Counter::LoadAvg => f.write_str("loadavg"),
            Counter::RunnableProc => f.write_str("runnable_proc"),
            Counter::Cpu(field) => write!(f, "cpustat.{}", field.name()),
            Counter::Meminfo(name) => write!(f, "meminfo.{name}"),
            Counter::Vmstat(name) => write!(f, "vmstat.{name}"),
            Counter::Host(counter) => f.write_str(counter.name()),
            Counter::Psi(r, l, v) => write!(f, "psi.{}.{}.{}", r.name(), l.name(), v.name()),
        }
    }
}
