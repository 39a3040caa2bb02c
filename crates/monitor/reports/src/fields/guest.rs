//! Fields of a guest derived from the host's counters.

use super::derived::derived;
use crate::facts::{Facts, MIB};
use crate::number::over;
use crate::states::State;
use model::{GuestField as G, HostField as H};

/// Memory that a guest cannot do without, in bytes: used memory plus the cache in active use. The
/// inputs are in every recording, so all recordings agree on the meaning. A balloon does not report
/// the active cache; the working set is then not known.
pub(super) fn working_set(facts: &Facts<'_>) -> Option<f64> {
    let actual = facts.g(G::Actual)?;
    let used = (actual - facts.g(G::OwnAvailable)?).max(0.0);
    Some(used + facts.g(G::OwnActiveFile)?)
}

fn emulation_ns(facts: &Facts<'_>) -> Option<f64> {
    let polled = facts.g(G::HaltPoll).unwrap_or(0.0);
    Some((facts.g(G::VcpuRun)? - facts.g(G::VcpuGuest)? - polled).max(0.0))
}

fn state(facts: &Facts<'_>, state: State) -> Option<f64> {
    facts.added.states?.percent()?.get(state)
}

derived! {
    /// Fields of a guest, measured from the host.
    GUEST, Guest {
        "cpu_ms_per_min", "CPU|ms/min", MsPerMin 0, [guest VcpuRun, guest OtherRun],
            "CPU time that it costs the host", "run time of all its threads, a minute",
            |f| f.g_ms_per_min(f.cpu_ns()?);
        "cpu_percent", "CPU|%", Percent 1, [guest VcpuRun, guest OtherRun],
            "the same, of one CPU", "run time of all its threads, of time",
            |f| f.g_share(f.cpu_ns()?);
        "virtual_ms_per_min", "Virt|ms/min", MsPerMin 0, [guest VcpuGuest, guest VcpuRun],
            "CPU time that it got itself",
            "guest time, or its virtual CPUs' run time under emulation, a minute",
            |f| f.g_ms_per_min(f.virtual_ns()?);
        "t_v_ratio", "T:V", Ratio 2, [guest VcpuRun, guest OtherRun, guest VcpuGuest],
            "total CPU time over what it got itself: 1 is no overhead",
            "run time of all its threads over guest time", |f| over(f.cpu_ns()?, f.virtual_ns()?);
        "host_cpu_percent", "Host|CPU %", Percent 1, [guest VcpuRun, guest OtherRun, host Cpus],
            "its share of all the host's CPUs", "run time of all its threads over CPUs and time",
            |f| over(f.cpu_ns()? * 100.0, f.h(H::Cpus)? * f.guest.covered_ms as f64 * 1e6);
        "resident_mib", "Resid|MiB", Mib 0, [guest Resident],
            "its process's memory, with the hypervisor's own and what it shares", "mean";
        "private_mib", "Priv|MiB", Mib 0, [guest Private],
            "what its process has for itself in the host's memory", "mean";
        "together_mib", "Shared|MiB", Mib 0, [guest Together],
            "what it has there together with others: of a template, of programs", "mean";
        "hypervisor_mib", "VMM|MiB", Mib 0, [guest Hypervisor],
            "what of the private part is its hypervisor's own",
            "measured, or estimated where its mappings may not be read; mean";
        "compressed_mib", "Compr|MiB", Mib 0, [guest Compressed],
            "what of the host's memory its swapped part takes",
            "as all that is swapped, on average; mean";
        "working_set_mib", "WSS|MiB", Mib 0,
            [guest Actual, guest OwnAvailable, guest OwnActiveFile],
            "working set: memory in use, and cache that is in use",
            "what it has less what is available in it, and active cache; mean",
            |f| Some(working_set(f)? / MIB);
        "locked_mib", "Lock|MiB", Mib 0, [guest Locked], "what cannot be swapped out", "mean";
        "actual_mib", "Actual|MiB", Mib 0, [guest Actual], "the memory that its balloon leaves it",
            "mean";
        "target_mib", "Target|MiB", Mib 0, [guest Target], "the target of its balloon", "mean";
        "minimum_mib", "Min|MiB", Mib 0, [guest Minimum], "it never gets less", "mean";
        "memory_mib", "Size|MiB", Mib 0, [guest Memory], "the memory that it was started with",
            "mean";
        "swapped_mib", "Swapd|MiB", Mib 0, [guest Swapped],
            "what of it the host has swapped out, to any tier", "mean";
        "merged_mib", "KSM|MiB", Mib 0, [guest Merged], "memory that it shares by KSM", "mean";
        "host_faults_per_s", "Host|faults/s", PerS 1, [guest MajorFaults],
            "faults for which the host had to read", "a second";
        "minor_faults_per_s", "Minor|/s", PerS 1, [guest MinorFaults],
            "faults that needed no reading", "a second";
        "reported_mib", "Report|MiB", Mib 0, [guest Reported],
            "free memory that it gave back by itself", "in the time";
        "wakes_per_min", "Wakes|/min", PerMin 0, [guest HaltWakeups, guest VcpuDispatches],
            "wake-ups of its virtual CPUs",
            "halts ended, or dispatches where halts are not counted, a minute",
            |f| f.g_per_min(f.wakes()?);
        "wake_cpu_ms", "ms a|wake", Ms 3, [guest VcpuRun, guest HaltWakeups, guest VcpuDispatches],
            "CPU time of a wake-up", "virtual CPUs' run time over wake-ups",
            |f| over(f.g(G::VcpuRun)? / 1e6, f.wakes()?);
        "wake_wait_ms", "wait ms|a wake", Ms 3,
            [guest VcpuDelay, guest HaltWakeups, guest VcpuDispatches],
            "how long a wake-up waits for a CPU", "run delay over wake-ups",
            |f| over(f.g(G::VcpuDelay)? / 1e6, f.wakes()?);
        "in_queue", "In|queue", Count 2, [guest VcpuRun, guest VcpuDelay],
            "virtual CPUs that ran or waited, on average",
            "run, CPU wait and what is known of page and I/O wait, over time",
            |f| over(f.queued_ns()?, f.guest.covered_ms as f64 * 1e6);
        "vcpus", "vCPUs", Count 0, [guest Vcpus], "virtual CPUs", "mean";
        "exits_per_s", "Exits|/s", PerS 0, [guest Exits],
            "times that virtual CPUs left the guest", "a second";
        "read_kib_per_s", "Read|KiB/s", KibPerS 1, [guest ReadBytes],
            "what was fetched from storage for it", "a second";
        "write_kib_per_s", "Write|KiB/s", KibPerS 1, [guest WriteBytes],
            "what it sent to storage", "a second";
        "read_calls_per_s", "Reads|/s", PerS 1, [guest ReadCalls],
            "its process's calls that read, of devices and of sockets", "a second";
        "write_calls_per_s", "Writes|/s", PerS 1, [guest WriteCalls],
            "its process's calls that wrote", "a second";
        "emulation_ms_per_min", "Emul|ms/min", MsPerMin 1, [guest VcpuRun, guest VcpuGuest],
            "CPU time of the host's code on its virtual CPUs",
            "run time less guest time and polling, a minute",
            |f| f.g_ms_per_min(emulation_ns(f)?);
        "halt_poll_ms_per_min", "Poll|ms/min", MsPerMin 1, [guest HaltPoll],
            "CPU time that went into polling while it was halted", "a minute";
        "other_ms_per_min", "VMM|ms/min", MsPerMin 1, [guest OtherRun],
            "CPU time of the hypervisor's other threads", "a minute";
        "other_wakes_per_min", "VMM|wakes/min", PerMin 0, [guest OtherDispatches],
            "dispatches of the hypervisor's other threads", "a minute";
        "cpu_wait_ms_per_min", "Steal|ms/min", MsPerMin 1, [guest VcpuDelay],
            "time that it was ready and others ran", "run delay of virtual CPUs, a minute";
        "throttled_ms_per_min", "Limit|ms/min", MsPerMin 1, [guest Throttled],
            "time that a limit held it back", "a minute";
    }
}

derived! {
    /// Time of a guest's virtual CPUs by state; the shares sum to 100.
    STATES, Guest {
        "run_percent", "Run|%", Percent 1,
            [guest VcpuRun, guest VcpuDelay, guest Vcpus, guest VcpuGuest],
            "they ran the guest's code; under emulation, they ran",
            "guest time, of virtual CPUs and time", |f| state(f, State::Run);
        "emulation_percent", "Emul|%", Percent 1, [guest VcpuGuest],
            "they ran the host's code: exits, emulated devices",
            "run time less guest time and polling", |f| state(f, State::Emulation);
        "halt_poll_percent", "Poll|%", Percent 1, [guest HaltPoll],
            "they were halted, and the host polled", "polling time", |f| state(f, State::HaltPoll);
        "cpu_wait_percent", "CPU|wait %", Percent 1, [guest VcpuDelay, guest VcpuRun, guest Vcpus],
            "they were ready and others ran: steal", "run delay",
            |f| state(f, State::CpuWait);
        "page_wait_percent", "Page|wait %", Percent 1, [guest PsiMemory],
            "they waited for the host to bring memory, which no guest sees as steal",
            "memory pressure of its cgroup", |f| state(f, State::PageWait);
        "io_wait_percent", "I/O|wait %", Percent 1, [guest VcpuBlockIo],
            "they waited for block I/O", "block I/O delay", |f| state(f, State::IoWait);
        "limit_percent", "Limit|%", Percent 1, [guest Throttled],
            "a limit of their cgroup held them back", "throttled time",
            |f| state(f, State::Limit);
        "async_io_percent", "Async|I/O %", Percent 1, [guest OtherBlockIo],
            "they were halted, and the hypervisor waited for block I/O in their stead",
            "block I/O delay of the process's other threads, at most the halted time",
            |f| state(f, State::AsyncIo);
        "idle_short_percent", "Idle|<0.3 s %", Percent 1, [guest IdleShort],
            "they were halted for less than 0.3 s on end: pauses within work",
            "rests by how long and how often each ran in each second; at most the halted time",
            |f| state(f, State::IdleShort);
        "idle_percent", "Idle|%", Percent 1,
            [guest VcpuRun, guest VcpuDelay, guest Vcpus, guest HaltWait],
            "they were halted for longer",
            "halted time less pauses and I/O; where it is not counted, the rest of the time",
            |f| state(f, State::Idle);
        "parked_percent", "Parked|%", Percent 1, [guest Parked],
            "they stood still: the guest was parked", "the time that it was, at most what is left",
            |f| state(f, State::Parked);
        "other_percent", "Other|%", Percent 1, [guest HaltWait], "the rest",
            "100 less all of these; where halts are not counted, the rest is idle",
            |f| state(f, State::Other);
        "states_percent", "Sum|%", Percent 1, [guest VcpuRun, guest VcpuDelay, guest Vcpus],
            "all of them", "sum", |f| Some(f.added.states?.percent()?.sum());
    }
}
