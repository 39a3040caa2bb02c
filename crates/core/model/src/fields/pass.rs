//! Inputs of a policy pass: about the host and its settings, and about a guest.

crate::field::fields! {
    /// Inputs of a pass about the host and its settings.
    PassField {
        SetPoint = "set_point_bytes", Bytes, Gauge, "settings",
            "free memory that the host should have";
        Hysteresis = "hysteresis_bytes", Bytes, Gauge, "settings",
            "difference from the set point that is tolerated";
        Reserve = "reserve_bytes", Bytes, Gauge, "settings", "free memory that no grant may touch";
        IdleTax = "idle_tax_permille", Permille, Gauge, "settings",
            "extra cost of idle memory compared with memory in use";
        Step = "step_permille", Permille, Gauge, "settings",
            "largest part of a guest's memory that the guest gives in one pass";
        StaleMs = "stale_ms", Count, Gauge, "settings",
            "largest age of a sample that decisions use";
        Rules = "rules", Count, Gauge, "settings",
            "deciding rules, numbered as in [policy] kind; 0 is the built-in policy";
        AtMs = "at_ms", Count, Gauge, "manager", "time of the host's reading";
        Total = "total_bytes", Bytes, Gauge, "meminfo, budget",
            "memory of the host, or memory that all guests may use";
        Available = "available_bytes", Bytes, Gauge, "meminfo, budget",
            "memory that could be handed out without swapping";
        Strained = "strained", Count, Gauge, "vmstat, pressure", "1 if the host waits for memory";
        PageOut = "page_out_bytes", Bytes, Gauge, "manager",
            "memory that the host's reclaim was expected to gain soon";
        Psi = "psi_permille", Permille, Gauge, "pressure/memory",
            "time in which at least one task of the host waited for memory";
    }
}

crate::field::fields! {
    /// Inputs of a pass about a guest.
    PassGuestField {
        Min = "min_bytes", Bytes, Gauge, "settings", "smallest memory of the guest";
        Max = "max_bytes", Bytes, Gauge, "settings", "largest memory of the guest";
        Shares = "shares", Count, Gauge, "settings", "weight of the guest";
        Mode = "mode", Count, Gauge, "settings, set", "0 managed, 1 pinned, 2 released";
        Pin = "pin_bytes", Bytes, Gauge, "set", "memory that the guest is pinned to";
        Actual = "actual_bytes", Bytes, Gauge, "balloon",
            "memory that the balloon leaves to the guest";
        Resident = "resident_bytes", Bytes, Gauge, "PID/statm",
            "resident memory of the guest that no other process shares";
        Doubtful = "doubtful_bytes", Bytes, Gauge, "PID/statm",
            "part of the resident memory that may be the hypervisor's own";
        Beside = "beside_bytes", Bytes, Gauge, "PID/statm",
            "other resident memory of the guest's process";
        Swapped = "swapped_bytes", Bytes, Gauge, "PID/status",
            "memory of the guest in the host's swap";
        Runs = "runs", Count, Gauge, "schedstat", "1 if the virtual CPUs have run lately";
        Idle = "idle", Count, Gauge, "schedstat",
            "1 if the virtual CPUs have not run since the guest's sample";
        Usable = "usable", Count, Gauge, "manager", "1 if the guest accepts requests";
        Request = "request_bytes", Bytes, Gauge, "daemon",
            "size that the guest's own rules request";
        Asks = "asks", Count, Gauge, "daemon",
            "1 if the guest has made a request since the last pass";
        Urgent = "urgent", Count, Gauge, "daemon", "1 if tasks of the guest wait for memory";
        DeflatesOnOom = "deflates_on_oom", Count, Gauge, "QMP",
            "1 if the guest's kernel deflates the balloon before it kills a process";
        SampleMs = "sample_ms", Count, Gauge, "manager", "time at which the guest's sample arrived";
        ClockMs = "clock_ms", Count, Gauge, "daemon, balloon",
            "guest's own clock at the time of the sample";
        SampleActual = "sample_actual_bytes", Bytes, Gauge, "manager",
            "memory of the guest at the time of the sample";
        Free = "free_bytes", Bytes, Gauge, "daemon, balloon", "MemFree of the guest";
        Available = "available_bytes", Bytes, Gauge, "daemon, balloon", "MemAvailable of the guest";
        Cached = "cached_bytes", Bytes, Gauge, "daemon, balloon", "guest's cache of files";
        ActiveFile = "active_file_bytes", Bytes, Gauge, "daemon",
            "part of the guest's cache that was used again";
        SwapFree = "swap_free_bytes", Bytes, Gauge, "daemon", "free swap space of the guest";
        SwapIn = "swap_in_pages", Pages, Counter, "daemon, balloon",
            "pages that the guest read from its swap space";
        SwapOut = "swap_out_pages", Pages, Counter, "daemon, balloon",
            "pages that the guest wrote to its swap space";
        Refaults = "refault_pages", Pages, Counter, "daemon",
            "pages that the guest read again soon after they were dropped";
        Stalls = "stalls", Count, Counter, "daemon",
            "allocations that had to wait for direct reclaim of memory";
        MajorFaults = "major_faults", Count, Counter, "daemon, balloon",
            "page faults for which the guest had to read";
        OomKills = "oom_kills", Count, Counter, "daemon", "processes killed because memory ran out";
        PsiSomeUs = "psi_some_us", Count, Counter, "daemon",
            "time in which at least one task waited for memory";
        RuleShrink = "rule_shrink", Count, Gauge, "operator's rules",
            "1 if the rules request that the guest gives memory";
        RuleGrow = "rule_grow", Count, Gauge, "operator's rules",
            "1 if the rules request that the guest gets memory";
        RuleMayShrink = "rule_may_shrink", Count, Gauge, "operator's rules",
            "0 if the rules forbid that the guest gives memory";
        RuleMayGrow = "rule_may_grow", Count, Gauge, "operator's rules",
            "0 if the rules forbid that the guest gets memory";
        RuleShrinkSize = "rule_shrink_bytes", Bytes, Gauge, "operator's rules",
            "memory that the guest gives in one step";
        RuleGrowSize = "rule_grow_bytes", Bytes, Gauge, "operator's rules",
            "memory that the guest gets in one step";
        Ordered = "ordered", Count, Gauge, "set", "1 if an operator set the minimum";
        GroupMax = "group_max_bytes", Bytes, Gauge, "cgroup",
            "largest memory that the limits of the guest's cgroups allow";
        Private = "private_bytes", Bytes, Gauge, "PID/statm",
            "resident memory that only the guest's process uses";
        Pinned = "pinned", Count, Gauge, "QMP, libvirt, PID/status",
            "1 if the guest's memory stays in the host, whatever the balloon takes";
        Reports = "page_reporting", Count, Gauge, "QMP, libvirt",
            "1 if the guest's kernel reports free pages to the host";
        Found = "found_bytes", Bytes, Gauge, "QMP, libvirt",
            "size of the guest before it was managed";
    }
}
