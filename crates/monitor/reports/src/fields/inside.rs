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

/// Scales the CPU time of a process by its guest's count to the host's measure.
fn prorated(facts: &Facts<'_>, ns: f64) -> Option<f64> {
    Some(ns * facts.scale()?)
}

derived! {
    /// Fields of a guest, measured inside.
    GUEST, Guest {
        "own_cpus", "CPUs", Count 0, [guest OwnCpus], "CPUs that are online in it", "mean";
        "own_busy_percent", "Busy|%", Percent 1, [guest OwnBusy, guest OwnIdle],
            "busy share of its CPUs, as it counts", "busy, of busy, idle and stolen ticks",
            |f| over(f.g(G::OwnBusy)? * 100.0, ticks(f)?);
        "own_steal_percent", "Steal|%", Percent 1, [guest OwnSteal, guest OwnBusy, guest OwnIdle],
            "stolen share of its CPUs, as it counts", "stolen, of busy, idle and stolen ticks",
            |f| over(f.g(G::OwnSteal)? * 100.0, ticks(f)?);
        "own_total_mib", "Total|MiB", Mib 0, [guest OwnTotal], "its memory", "MemTotal, mean";
        "own_available_mib", "Avail|MiB", Mib 0, [guest OwnAvailable],
            "what it could hand out without swapping", "mean";
        "own_free_mib", "Free|MiB", Mib 0, [guest OwnFree], "what it does not use", "mean";
        "own_cached_mib", "Cache|MiB", Mib 0, [guest OwnCached], "its cache of files", "mean";
        "own_swap_mib", "Swap|size MiB", Mib 0, [guest OwnSwapTotal], "its swap space", "mean";
        "own_swap_used_mib", "Swap|used MiB", Mib 0, [guest OwnSwapTotal, guest OwnSwapFree],
            "what of its swap space is used", "total less free, mean",
            |f| Some((f.g(G::OwnSwapTotal)? - f.g(G::OwnSwapFree)?).max(0.0) / MIB);
        "own_swap_in_pages_per_s", "Swap in|pages/s", PagesPerS 1, [guest OwnSwapIn],
            "pages it read from its swap space", "a second";
        "own_swap_out_pages_per_s", "Swap out|pages/s", PagesPerS 1, [guest OwnSwapOut],
            "pages it wrote to its swap space", "a second";
        "own_refault_file_pages_per_s", "Refault|file/s", PagesPerS 1, [guest OwnRefaultFile],
            "cache it needed again soon after it was dropped", "a second";
        "own_refault_anonymous_pages_per_s", "Refault|anon/s", PagesPerS 1,
            [guest OwnRefaultAnonymous], "memory it needed again soon after it was swapped out",
            "a second";
        "own_faults_per_s", "Own|faults/s", PerS 1, [guest OwnMajorFaults],
            "faults for which it had to read", "a second";
        "own_stalls_per_s", "Stalls|/s", PerS 1, [guest OwnStalls],
            "allocations that had to reclaim memory themselves", "a second";
        "own_psi_some_percent", "Mem|some %", Percent 1, [guest OwnPsiSome],
            "time in which some task in it waited for memory", "pressure, of time";
        "own_psi_full_percent", "Mem|full %", Percent 1, [guest OwnPsiFull],
            "time in which all tasks in it waited for memory", "pressure, of time";
        "own_pool_mib", "Pool|MiB", Mib 0, [guest OwnPool], "the pool that its rules have given up",
            "mean";
        "own_plugs", "Plugs", Count 0, [guest OwnPlugs], "CPUs plugged by its rules",
            "in the time";
        "own_unplugs", "Un-|plugs", Count 0, [guest OwnUnplugs], "CPUs unplugged by its rules",
            "in the time";
        "own_oom_kills", "OOM|kills", Count 0, [guest OwnOomKills],
            "processes that it killed because memory ran out", "in the time";
        "tight_ratio", "WSS of|actual", Ratio 2,
            [guest OwnAvailable, guest OwnActiveFile, guest Actual],
            "its working set over the memory that it has",
            "its working set over what its balloon leaves it",
            |f| over(super::guest::working_set(f)?, f.g(G::Actual)?);
        "prorate_ratio", "Clock|ratio", Ratio 3,
            [guest RunThen, guest OwnRun, guest VcpuRun, guest OwnBusy],
            "what a second of the guest's own count was in truth",
            "guest time over the guest's count of it, from report to report of its processes; \
             without them, over its busy ticks", |f| f.factor();
        "own_load", "Load", Count 2, [guest OwnLoad],
            "tasks in it that ran, could have, or waited for storage",
            "its load average of a minute, as it was told last; mean";
        "own_running", "Run-|ning", Count 1, [guest OwnRunning],
            "its tasks that ran or could, the daemon that counts them being one",
            "as it was told last; mean";
        "own_blocked", "Block-|ed", Count 1, [guest OwnBlocked],
            "its tasks that waited for storage", "as it was told last; mean";
        "own_root_percent", "Root|fs %", Percent 1, [guest OwnRootUsed],
            "what of its root file system is used", "as it was told last; mean";
        "own_in_kib_per_s", "Own in|KiB/s", KibPerS 1, [guest OwnReceived],
            "what came by its network, the loop-back left out", "a second";
        "own_out_kib_per_s", "Own out|KiB/s", KibPerS 1, [guest OwnSent],
            "what went by it", "a second";
        "own_decisions", "Deci-|sions", Count 0,
            [guest OwnPlugs, guest OwnUnplugs, guest OwnGrows, guest OwnShrinks],
            "what its rules decided and did", "CPUs plugged and unplugged, pools grown and shrunk",
            |f| {
                let cpus = f.g(G::OwnPlugs)? + f.g(G::OwnUnplugs)?;
                Some(cpus + f.g(G::OwnGrows)? + f.g(G::OwnShrinks)?)
            };
    }
}

derived! {
    /// Fields of a process in a guest. CPU times are the guest's own times multiplied by the
    /// factor. CPU time received while no daemon reported processes is divided in the same
    /// proportion.
    PROCESS, Process {
        "processes", "Num", Count 0, [process Count], "processes of this name", "mean";
        "cpu_percent", "CPU|%", Percent 2,
            [process User, process System, process Run, process ChildUser, process ChildSystem,
             guest OwnRun, guest VcpuRun],
            "CPU time of the host that it used, with its ended children, of one CPU",
            "user, system and children's time times the factor, of time",
            |f| f.g_share(prorated(f, f.process_and_children_ns()?)?);
        "cpu_ms_per_min", "CPU|ms/min", MsPerMin 1,
            [process User, process System, process Run, process ChildUser, process ChildSystem,
             guest OwnRun, guest VcpuRun],
            "the same, in milliseconds: what stopping it would save",
            "user, system and children's time times the factor, a minute",
            |f| f.g_ms_per_min(prorated(f, f.process_and_children_ns()?)?);
        "user_percent", "User|%", Percent 2, [process User, guest OwnRun, guest VcpuRun],
            "in user mode", "user time times the factor, of time",
            |f| f.g_share(prorated(f, f.p(P::User)?)?);
        "system_percent", "Sys|%", Percent 2, [process System, guest OwnRun, guest VcpuRun],
            "in its kernel", "system time times the factor, of time",
            |f| f.g_share(prorated(f, f.p(P::System)?)?);
        "child_percent", "Child|%", Percent 2,
            [process ChildUser, process ChildSystem, guest OwnRun, guest VcpuRun],
            "of children that have ended meanwhile; included in CPU %",
            "children's time times the factor, of time",
            |f| f.g_share(prorated(f, f.p(P::ChildUser)? + f.p(P::ChildSystem)?)?);
        "prorate_ratio", "Clock|ratio", Ratio 3,
            [guest RunThen, guest OwnRun, guest VcpuRun, guest OwnBusy],
            "the factor: what a second of the guest's own count was in truth",
            "guest time over the guest's count of it, from report to report of its processes; \
             without them, over its busy ticks", |f| f.factor();
        "wakes_per_min", "Wakes|/min", PerMin 0, [process Dispatches],
            "dispatches of its threads", "a minute";
        "wake_cpu_ms", "ms a|wake", Ms 3, [process Run, process Dispatches],
            "CPU time of a wake-up, as the guest counts", "run time over dispatches",
            |f| over(f.p(P::Run)? / 1e6, f.p(P::Dispatches)?);
        "resident_mib", "RSS|MiB", Mib 1, [process Resident], "its memory", "mean";
        "faults_per_min", "Faults|/min", PerMin 1, [process MajorFaults],
            "faults that had to read", "a minute";
        "threads", "Threads", Count 0, [process Threads], "its threads", "mean";
        "own_cpu_ms_per_min", "Own|ms/min", MsPerMin 1,
            [process User, process System, process Run],
            "CPU time as the guest counts it", "user and system time, a minute",
            |f| f.g_ms_per_min(f.process_ns()?);
        "of_guest_percent", "Guest|%", Percent 1,
            [process User, process System, process Run, process ChildUser, process ChildSystem,
             guest OwnRun],
            "its share of its guest's CPU time, with its ended children",
            "its time and its children's over what the guest counted",
            |f| over(f.process_and_children_ns()? * 100.0, f.own_ns()?);
    }
}

derived! {
    /// Fields of a finding, in the unit of the rule's field.
    FINDING, Finding {
        "limit", "Limit", Count 2, [], "from here on it is told", "the rule's", |_| None;
        "over_whole", "Whole|time", Count 2, [], "the value over the whole time", "the field's",
            |_| None;
        "worst", "Worst", Count 2, [], "the value in its worst interval", "the field's", |_| None;
        "held_percent", "Held|%", Percent 1, [], "intervals in which it was over the limit",
            "of those in which the value is known", |_| None;
    }
}
