//! Fields that daemons report of their guests and of processes in them.

use super::derived::derived;
use crate::facts::{Facts, MIB};
use crate::number::over;
use model::{GuestField as G, ProcessField as P};

/// Returns the ticks of the guest's CPUs: busy, idle and stolen.
fn ticks(facts: &Facts<'_>) -> Option<f64> {
    let stolen = facts.g(G::OwnSteal).unwrap_or(0.0);
    Some(facts.g(G::OwnBusy)? + facts.g(G::OwnIdle)? + stolen)
}

/// Converts the CPU time of a process from the guest's count to its share of the CPU time that the
/// host gave the guest.
fn prorated(facts: &Facts<'_>, ns: f64) -> Option<f64> {
    Some(ns * facts.scale()?)
}

derived! {
    /// Fields of a guest, measured inside.
    GUEST, Guest {
        "own_cpus", "CPUs", Count 0, [guest OwnCpus], "CPUs that are online in the guest", "mean";
        "own_busy_percent", "Busy|%", Percent 1, [guest OwnBusy, guest OwnIdle],
            "busy share of the guest's CPUs, by its own count",
            "busy ticks, as a share of busy, idle and stolen ticks",
            |f| over(f.g(G::OwnBusy)? * 100.0, ticks(f)?);
        "own_steal_percent", "Steal|%", Percent 1, [guest OwnSteal, guest OwnBusy, guest OwnIdle],
            "stolen share of the guest's CPUs, by its own count",
            "stolen ticks, as a share of busy, idle and stolen ticks",
            |f| over(f.g(G::OwnSteal)? * 100.0, ticks(f)?);
        "own_total_mib", "Total|MiB", Mib 0, [guest OwnTotal],
            "memory of the guest, by its own count", "MemTotal, mean";
        "own_available_mib", "Avail|MiB", Mib 0, [guest OwnAvailable],
            "memory that the guest's kernel could hand out without swapping", "MemAvailable, mean";
        "own_cached_mib", "Cache|MiB", Mib 0, [guest OwnCached], "guest's cache of files", "mean";
        "own_swap_mib", "Swap|size MiB", Mib 0, [guest OwnSwapTotal],
            "size of the guest's swap space", "mean";
        "own_swap_used_mib", "Swap|used MiB", Mib 0, [guest OwnSwapTotal, guest OwnSwapFree],
            "used part of the guest's swap space", "total less free, mean",
            |f| Some((f.g(G::OwnSwapTotal)? - f.g(G::OwnSwapFree)?).max(0.0) / MIB);
        "own_swap_in_pages_per_s", "Swap in|pages/s", PagesPerS 1, [guest OwnSwapIn],
            "pages that the guest read from its swap space", "per second";
        "own_swap_out_pages_per_s", "Swap out|pages/s", PagesPerS 1, [guest OwnSwapOut],
            "pages that the guest wrote to its swap space", "per second";
        "own_refault_file_pages_per_s", "Refault|file/s", PagesPerS 1, [guest OwnRefaultFile],
            "pages of the guest's cache that were read again soon after they were dropped",
            "per second";
        "own_refault_anonymous_pages_per_s", "Refault|anon/s", PagesPerS 1,
            [guest OwnRefaultAnonymous],
            "pages that the guest read back soon after it had swapped them out", "per second";
        "own_faults_per_s", "Own|faults/s", PerS 1, [guest OwnMajorFaults],
            "page faults for which the guest had to read from its disks", "per second";
        "own_stalls_per_s", "Stalls|/s", PerS 1, [guest OwnStalls],
            "allocations that had to wait for direct reclaim of memory", "per second";
        "own_psi_some_percent", "Mem|some %", Percent 1, [guest OwnPsiSome],
            "time in which at least one task of the guest waited for memory",
            "pressure stall time, as a share of the time";
        "own_psi_full_percent", "Mem|full %", Percent 1, [guest OwnPsiFull],
            "time in which all tasks of the guest waited for memory",
            "pressure stall time, as a share of the time";
        "own_pool_mib", "Pool|MiB", Mib 0, [guest OwnPool],
            "memory that the daemon's rules have moved to the pool", "mean";
        "own_plugs", "Plugs", Count 0, [guest OwnPlugs], "CPUs that the daemon's rules plugged",
            "total";
        "own_unplugs", "Un-|plugs", Count 0, [guest OwnUnplugs],
            "CPUs that the daemon's rules unplugged", "total";
        "own_oom_kills", "OOM|kills", Count 0, [guest OwnOomKills],
            "processes that the guest's kernel killed because memory ran out", "total";
        "tight_ratio", "WSS of|actual", Ratio 2,
            [guest OwnAvailable, guest OwnActiveFile, guest Actual],
            "guest's working set divided by its memory",
            "working set divided by the memory that the balloon leaves to the guest",
            |f| over(super::guest::working_set(f)?, f.g(G::Actual)?);
        "prorate_ratio", "Clock|ratio", Ratio 3,
            [guest RunThen, guest OwnRun, guest VcpuRun, guest OwnBusy],
            "CPU time by the host's clock per second that the guest counted",
            "guest time divided by the guest's count of run time, between reports of its \
             processes; without reports, divided by busy ticks", |f| f.factor();
        "own_load", "Load", Count 2, [guest OwnLoad],
            "tasks of the guest that ran, were ready, or waited for storage",
            "load average of one minute, as last reported; mean";
        "own_running", "Run-|ning", Count 1, [guest OwnRunning],
            "tasks of the guest that ran or were ready, including its daemon",
            "as last reported; mean";
        "own_blocked", "Block-|ed", Count 1, [guest OwnBlocked],
            "tasks of the guest that waited for storage", "as last reported; mean";
        "own_root_percent", "Root|fs %", Percent 1, [guest OwnRootUsed],
            "used part of the guest's root file system", "as last reported; mean";
        "own_in_kib_per_s", "Own in|KiB/s", KibPerS 1, [guest OwnReceived],
            "data that the guest received by network, without loop-back", "per second";
        "own_out_kib_per_s", "Own out|KiB/s", KibPerS 1, [guest OwnSent],
            "data that the guest sent by network, without loop-back", "per second";
        "own_decisions", "Deci-|sions", Count 0,
            [guest OwnPlugs, guest OwnUnplugs, guest OwnGrows, guest OwnShrinks],
            "changes that the daemon's rules made",
            "CPUs plugged and unplugged, pools grown and shrunk", |f| {
                let cpus = f.g(G::OwnPlugs)? + f.g(G::OwnUnplugs)?;
                Some(cpus + f.g(G::OwnGrows)? + f.g(G::OwnShrinks)?)
            };
    }
}

derived! {
    /// Fields of a process in a guest. CPU times are the times that the guest counted, multiplied
    /// by a factor. The factor also divides CPU time that the guest received while no daemon
    /// reported processes.
    PROCESS, Process {
        "processes", "Num", Count 0, [process Count], "processes of this name", "mean";
        "cpu_percent", "CPU|%", Percent 2,
            [process User, process System, process Run, process ChildUser, process ChildSystem,
             guest OwnRun, guest VcpuRun],
            "host CPU time of the process and its ended children; 100 is one CPU",
            "user, system and children's time, scaled to the guest's host CPU time; as a share of \
             the time", |f| f.g_share(prorated(f, f.process_and_children_ns()?)?);
        "cpu_ms_per_min", "CPU|ms/min", MsPerMin 1,
            [process User, process System, process Run, process ChildUser, process ChildSystem,
             guest OwnRun, guest VcpuRun],
            "host CPU time of the process and its ended children: the saving if it is stopped",
            "user, system and children's time, scaled to the guest's host CPU time; per minute",
            |f| f.g_ms_per_min(prorated(f, f.process_and_children_ns()?)?);
        "user_percent", "User|%", Percent 2, [process User, guest OwnRun, guest VcpuRun],
            "host CPU time in user mode",
            "user time, scaled to the guest's host CPU time; as a share of the time",
            |f| f.g_share(prorated(f, f.p(P::User)?)?);
        "system_percent", "Sys|%", Percent 2, [process System, guest OwnRun, guest VcpuRun],
            "host CPU time in the guest's kernel",
            "system time, scaled to the guest's host CPU time; as a share of the time",
            |f| f.g_share(prorated(f, f.p(P::System)?)?);
        "child_percent", "Child|%", Percent 2,
            [process ChildUser, process ChildSystem, guest OwnRun, guest VcpuRun],
            "host CPU time of children that have ended; included in CPU %",
            "children's time, scaled to the guest's host CPU time; as a share of the time",
            |f| f.g_share(prorated(f, f.p(P::ChildUser)? + f.p(P::ChildSystem)?)?);
        "prorate_ratio", "Clock|ratio", Ratio 3,
            [guest RunThen, guest OwnRun, guest VcpuRun, guest OwnBusy],
            "clock ratio: CPU time by the host's clock per second that the guest counted",
            "guest time divided by the guest's count of run time, between reports of its \
             processes; without reports, divided by busy ticks", |f| f.factor();
        "wakes_per_min", "Wakes|/min", PerMin 0, [process Dispatches],
            "dispatches of the process's threads", "per minute";
        "wake_cpu_ms", "ms a|wake", Ms 3, [process Run, process Dispatches],
            "CPU time per wake-up, by the guest's count", "run time divided by dispatches",
            |f| over(f.p(P::Run)? / 1e6, f.p(P::Dispatches)?);
        "resident_mib", "RSS|MiB", Mib 1, [process Resident],
            "resident memory of the process in the guest", "mean";
        "faults_per_min", "Faults|/min", PerMin 1, [process MajorFaults],
            "page faults that had to read from a disk", "per minute";
        "threads", "Threads", Count 0, [process Threads], "number of threads", "mean";
        "own_cpu_ms_per_min", "Own|ms/min", MsPerMin 1,
            [process User, process System, process Run, process ChildUser, process ChildSystem],
            "CPU time of the process and its ended children, by the guest's count",
            "user, system and children's time, per minute",
            |f| f.g_ms_per_min(f.process_and_children_ns()?);
        "of_guest_percent", "Guest|%", Percent 1,
            [process User, process System, process Run, process ChildUser, process ChildSystem,
             guest OwnRun],
            "share of the guest's CPU time that the process and its ended children used",
            "CPU time of the process and its children, divided by the CPU time that the guest \
             counted", |f| over(f.process_and_children_ns()? * 100.0, f.own_ns()?);
    }
}

derived! {
    /// Fields of a finding, in the unit of the rule's field.
    FINDING, Finding {
        "limit", "Limit", Count 2, [], "limit of the rule; a value beyond it makes the finding",
            "value of the rule", |_| None;
        "over_whole", "Whole|time", Count 2, [], "value over the whole time",
            "same formula as the field", |_| None;
        "worst", "Worst", Count 2, [], "value in the worst interval", "same formula as the field",
            |_| None;
        "held_percent", "Held|%", Percent 1, [],
            "share of intervals in which the value was beyond the limit",
            "only intervals with a known value count", |_| None;
    }
}
