//! Fields of a guest derived from the host's counters.

use super::derived::derived;
use crate::facts::{Facts, MIB};
use crate::number::over;
use crate::states::State;
use model::{GuestField as G, HostField as H};

/// Memory that a guest cannot do without, in bytes: used memory plus the cache in active use. The
/// working set is not known if only a balloon reports, because a balloon does not report the active
/// cache. In recordings of every version the value has the same meaning.
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
            "CPU time that the guest costs the host",
            "run time of all threads of the guest's process, per minute",
            |f| f.g_ms_per_min(f.cpu_ns()?);
        "cpu_percent", "CPU|%", Percent 1, [guest VcpuRun, guest OtherRun],
            "CPU time that the guest costs the host; 100 is one CPU",
            "run time of all threads of the guest's process, as a share of the time",
            |f| f.g_share(f.cpu_ns()?);
        "virtual_ms_per_min", "Virt|ms/min", MsPerMin 0, [guest VcpuGuest, guest VcpuRun],
            "CPU time that the guest itself received",
            "guest time, or run time of its virtual CPUs under emulation, per minute",
            |f| f.g_ms_per_min(f.virtual_ns()?);
        "t_v_ratio", "T:V", Ratio 2, [guest VcpuRun, guest OtherRun, guest VcpuGuest],
            "CPU time that the guest costs, divided by the CPU time that it received; 1 is no \
             overhead", "run time of all threads of the guest's process divided by guest time",
            |f| over(f.cpu_ns()?, f.virtual_ns()?);
        "host_cpu_percent", "Host|CPU %", Percent 1, [guest VcpuRun, guest OtherRun, host Cpus],
            "guest's share of all CPUs of the host",
            "run time of all threads of the guest's process, as a share of the time of all CPUs",
            |f| over(f.cpu_ns()? * 100.0, f.h(H::Cpus)? * f.guest.covered_ms as f64 * 1e6);
        "resident_mib", "Resid|MiB", Mib 0, [guest Resident],
            "resident memory of the guest's process, including hypervisor and shared memory",
            "mean";
        "private_mib", "Priv|MiB", Mib 0, [guest Private],
            "resident memory that only the guest's process uses", "mean";
        "together_mib", "Shared|MiB", Mib 0, [guest Together],
            "resident memory that the guest's process may share: a template, programs", "mean";
        "hypervisor_mib", "VMM|MiB", Mib 0, [guest Hypervisor],
            "part of the private memory that the hypervisor itself uses",
            "measured, or estimated if its mappings cannot be read; mean";
        "compressed_mib", "Compr|MiB", Mib 0, [guest Compressed],
            "host memory that holds the guest's swapped-out memory in compressed form",
            "estimated from the mean compression of all swapped memory; mean";
        "working_set_mib", "WSS|MiB", Mib 0,
            [guest Actual, guest OwnAvailable, guest OwnActiveFile],
            "working set: memory in use, including cache in active use",
            "actual less available memory, plus active cache; mean",
            |f| Some(working_set(f)? / MIB);
        "locked_mib", "Lock|MiB", Mib 0, [guest Locked],
            "memory of the guest's process that cannot be swapped out", "mean";
        "actual_mib", "Has|MiB", Mib 0, [guest Actual],
            "memory that the balloon leaves to the guest", "mean";
        "target_mib", "Target|MiB", Mib 0, [guest Target], "target of the guest's balloon", "mean";
        "minimum_mib", "Min|MiB", Mib 0, [guest Minimum],
            "smallest memory that the manager leaves to the guest", "mean";
        "memory_mib", "Size|MiB", Mib 0, [guest Memory], "memory that the guest was started with",
            "mean";
        "swapped_mib", "Swapd|MiB", Mib 0, [guest Swapped],
            "memory of the guest that the host has swapped out, to any tier", "mean";
        "merged_mib", "KSM|MiB", Mib 0, [guest Merged], "memory of the guest that KSM shares",
            "mean";
        "host_faults_per_s", "Host|faults/s", PerS 1, [guest MajorFaults],
            "page faults of the guest's process for which the host had to read from storage",
            "per second";
        "reported_mib", "Report|MiB", Mib 0, [guest Reported],
            "free memory that the guest returned by page reporting", "total";
        "wakes_per_min", "Wakes|/min", PerMin 0, [guest HaltWakeups, guest VcpuDispatches],
            "wake-ups of the guest's virtual CPUs",
            "halts that ended, or dispatches if halts are not counted; per minute",
            |f| f.g_per_min(f.wakes()?);
        "wake_cpu_ms", "ms a|wake", Ms 3, [guest VcpuRun, guest HaltWakeups, guest VcpuDispatches],
            "CPU time per wake-up", "run time of virtual CPUs divided by wake-ups",
            |f| over(f.g(G::VcpuRun)? / 1e6, f.wakes()?);
        "wake_wait_ms", "wait ms|a wake", Ms 3,
            [guest VcpuDelay, guest HaltWakeups, guest VcpuDispatches], "CPU wait per wake-up",
            "run delay of virtual CPUs divided by wake-ups",
            |f| over(f.g(G::VcpuDelay)? / 1e6, f.wakes()?);
        "in_queue", "In|queue", Count 2, [guest VcpuRun, guest VcpuDelay],
            "virtual CPUs that ran or waited, on average",
            "run time, CPU waits, and known page and I/O waits, divided by the time",
            |f| over(f.queued_ns()?, f.guest.covered_ms as f64 * 1e6);
        "vcpus", "vCPUs", Count 0, [guest Vcpus], "number of virtual CPUs", "mean";
        "exits_per_s", "Exits|/s", PerS 0, [guest Exits],
            "exits of virtual CPUs from the guest's code to the hypervisor", "per second";
        "read_kib_per_s", "Read|KiB/s", KibPerS 1, [guest ReadBytes],
            "data fetched from storage for the guest", "per second";
        "write_kib_per_s", "Write|KiB/s", KibPerS 1, [guest WriteBytes],
            "data that the guest's process sent to storage", "per second";
        "read_calls_per_s", "Reads|/s", PerS 1, [guest ReadCalls],
            "read calls of the guest's process, of devices and sockets", "per second";
        "write_calls_per_s", "Writes|/s", PerS 1, [guest WriteCalls],
            "write calls of the guest's process, of devices and sockets", "per second";
        "emulation_ms_per_min", "Emul|ms/min", MsPerMin 1, [guest VcpuRun, guest VcpuGuest],
            "CPU time that virtual CPUs spent in the host's code",
            "run time less guest time and polling time, per minute",
            |f| f.g_ms_per_min(emulation_ns(f)?);
        "halt_poll_ms_per_min", "Poll|ms/min", MsPerMin 1, [guest HaltPoll],
            "CPU time that the host spent polling for a halted virtual CPU", "per minute";
        "other_ms_per_min", "VMM|ms/min", MsPerMin 1, [guest OtherRun],
            "CPU time of the hypervisor's other threads", "per minute";
        "other_wakes_per_min", "VMM|wakes/min", PerMin 0, [guest OtherDispatches],
            "dispatches of the hypervisor's other threads", "per minute";
    }
}

derived! {
    /// Time of a guest's virtual CPUs by state; the shares sum to 100.
    STATES, Guest {
        "run_percent", "Run|%", Percent 1,
            [guest VcpuRun, guest VcpuDelay, guest Vcpus, guest VcpuGuest],
            "time running the guest's code; under emulation, all run time",
            "guest time, as a share of the time of all virtual CPUs", |f| state(f, State::Run);
        "emulation_percent", "Emul|%", Percent 1, [guest VcpuGuest],
            "time running the host's code for exits and emulated devices",
            "run time less guest time and polling time", |f| state(f, State::Emulation);
        "halt_poll_percent", "Poll|%", Percent 1, [guest HaltPoll],
            "time halted while the host polled", "polling time", |f| state(f, State::HaltPoll);
        "cpu_wait_percent", "CPU|wait %", Percent 1, [guest VcpuDelay, guest VcpuRun, guest Vcpus],
            "time ready but not running: steal", "run delay", |f| state(f, State::CpuWait);
        "page_wait_percent", "Page|wait %", Percent 1, [guest PsiMemory],
            "time waiting for the host to bring in memory; guests do not see it as steal",
            "memory pressure of the guest's cgroup", |f| state(f, State::PageWait);
        "io_wait_percent", "I/O|wait %", Percent 1, [guest VcpuBlockIo],
            "time waiting for block I/O", "block I/O delay", |f| state(f, State::IoWait);
        "limit_percent", "Limit|%", Percent 1, [guest Throttled],
            "time stopped by a CPU limit of the cgroup", "throttled time",
            |f| state(f, State::Limit);
        "async_io_percent", "Async|I/O %", Percent 1, [guest OtherBlockIo],
            "time halted while the hypervisor waited for block I/O",
            "block I/O delay of the process's other threads, at most the halted time",
            |f| state(f, State::AsyncIo);
        "idle_short_percent", "Idle|<0.3 s %", Percent 1, [guest IdleShort],
            "time halted in pauses shorter than 0.3 s, within work",
            "estimated from the duration and number of runs in each second; at most the halted \
             time", |f| state(f, State::IdleShort);
        "idle_percent", "Idle|%", Percent 1,
            [guest VcpuRun, guest VcpuDelay, guest Vcpus, guest HaltWait], "time halted for longer",
            "halted time less pauses and I/O; if halts are not counted, the rest of the time",
            |f| state(f, State::Idle);
        "parked_percent", "Parked|%", Percent 1, [guest Parked],
            "time stopped because the guest was parked", "parked time, at most the remaining time",
            |f| state(f, State::Parked);
        "other_percent", "Other|%", Percent 1, [guest HaltWait], "time in no other state",
            "100 less all other states; if halts are not counted, the rest counts as idle",
            |f| state(f, State::Other);
        "states_percent", "Sum|%", Percent 1, [guest VcpuRun, guest VcpuDelay, guest Vcpus],
            "time in all states", "sum of all states", |f| Some(f.added.states?.percent()?.sum());
    }
}
