//! Inputs of a policy pass: about the host and its settings, and about a guest.

crate::field::fields! {
    /// Inputs of a pass about the host and its settings.
    PassField {
        SetPoint = "set_point_bytes", Bytes, Gauge, "settings", "the free memory it is to have";
        Hysteresis = "hysteresis_bytes", Bytes, Gauge, "settings",
            "how far that may be missed before anything is done";
        Reserve = "reserve_bytes", Bytes, Gauge, "settings", "what no grant may touch";
        IdleTax = "idle_tax_permille", Permille, Gauge, "settings",
            "how much more idle memory costs than memory in use";
        Step = "step_permille", Permille, Gauge, "settings",
            "the largest part of its memory that a guest gives in one pass";
        StaleMs = "stale_ms", Count, Gauge, "settings", "an older sample decides nothing";
        Rules = "rules", Count, Gauge, "settings",
            "whose rules decide, as [policy] kind counts them: 0 are ours";
        AtMs = "at_ms", Count, Gauge, "manager", "when the host was looked at";
        Total = "total_bytes", Bytes, Gauge, "meminfo, budget",
            "its memory, or what guests may use together";
        Available = "available_bytes", Bytes, Gauge, "meminfo, budget",
            "what could be handed out without swapping";
        Strained = "strained", Count, Gauge, "vmstat, pressure", "1 where it waits for memory";
        PageOut = "page_out_bytes", Bytes, Gauge, "manager",
            "what its own reclaim was expected to gain soon";
        Psi = "psi_permille", Permille, Gauge, "pressure/memory",
            "time in which some task of it waited for memory";
    }
}

crate::field::fields! {
    /// Inputs of a pass about a guest.
    PassGuestField {
        Min = "min_bytes", Bytes, Gauge, "settings", "it never gets less";
        Max = "max_bytes", Bytes, Gauge, "settings", "it never gets more";
        Shares = "shares", Count, Gauge, "settings", "its weight";
        Mode = "mode", Count, Gauge, "settings, set", "0 managed, 1 pinned, 2 released";
        Pin = "pin_bytes", Bytes, Gauge, "set", "what it is pinned to";
        Actual = "actual_bytes", Bytes, Gauge, "balloon", "the memory that it has";
        Resident = "resident_bytes", Bytes, Gauge, "PID/statm",
            "what of it is in the host's memory, and nobody else's";
        Doubtful = "doubtful_bytes", Bytes, Gauge, "PID/statm",
            "what of that may be its hypervisor's own";
        Beside = "beside_bytes", Bytes, Gauge, "PID/statm", "what its process has there beside";
        Swapped = "swapped_bytes", Bytes, Gauge, "PID/status", "what of it is in the host's swap";
        Runs = "runs", Count, Gauge, "schedstat", "1 where its virtual CPUs have run of late";
        Idle = "idle", Count, Gauge, "schedstat", "1 where they have not since its sample";
        Usable = "usable", Count, Gauge, "manager", "1 where something may be asked of it";
        Request = "request_bytes", Bytes, Gauge, "daemon", "the size its own rules want";
        Asks = "asks", Count, Gauge, "daemon", "1 where it has asked since the last pass";
        Urgent = "urgent", Count, Gauge, "daemon", "1 where its tasks wait for memory";
        DeflatesOnOom = "deflates_on_oom", Count, Gauge, "QMP",
            "1 where its kernel takes memory back before it kills";
        SampleMs = "sample_ms", Count, Gauge, "manager", "when its sample came";
        ClockMs = "clock_ms", Count, Gauge, "daemon, balloon", "its own clock then";
        SampleActual = "sample_actual_bytes", Bytes, Gauge, "manager", "what it had then";
        Free = "free_bytes", Bytes, Gauge, "daemon, balloon", "MemFree";
        Available = "available_bytes", Bytes, Gauge, "daemon, balloon", "MemAvailable";
        Cached = "cached_bytes", Bytes, Gauge, "daemon, balloon", "its cache";
        ActiveFile = "active_file_bytes", Bytes, Gauge, "daemon", "what of it was used again";
        SwapFree = "swap_free_bytes", Bytes, Gauge, "daemon", "its free swap space";
        SwapIn = "swap_in_pages", Pages, Counter, "daemon, balloon", "read from its swap";
        SwapOut = "swap_out_pages", Pages, Counter, "daemon, balloon", "written to it";
        Refaults = "refault_pages", Pages, Counter, "daemon", "needed again soon after";
        Stalls = "stalls", Count, Counter, "daemon", "allocations that had to reclaim";
        MajorFaults = "major_faults", Count, Counter, "daemon, balloon", "faults that had to read";
        OomKills = "oom_kills", Count, Counter, "daemon", "processes killed for memory";
        PsiSomeUs = "psi_some_us", Count, Counter, "daemon", "time some task waited for memory";
        RuleShrink = "rule_shrink", Count, Gauge, "operator's rules", "whether it gives";
        RuleGrow = "rule_grow", Count, Gauge, "operator's rules", "whether it needs";
        RuleMayShrink = "rule_may_shrink", Count, Gauge, "operator's rules", "0: it gives nothing";
        RuleMayGrow = "rule_may_grow", Count, Gauge, "operator's rules", "0: it gets nothing";
        RuleShrinkSize = "rule_shrink_bytes", Bytes, Gauge, "operator's rules", "a step down";
        RuleGrowSize = "rule_grow_bytes", Bytes, Gauge, "operator's rules", "a step up";
        Ordered = "ordered", Count, Gauge, "set", "1 where its minimum was set by hand";
        GroupMax = "group_max_bytes", Bytes, Gauge, "cgroup",
            "what it may have by the bounds of its control groups";
        Private = "private_bytes", Bytes, Gauge, "PID/statm",
            "all that its process has in the host's memory for itself";
        Pinned = "pinned", Count, Gauge, "QMP, libvirt, PID/status",
            "1 where its memory stays in the host's, whatever its balloon takes";
    }
}
