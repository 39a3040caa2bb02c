//! Recorded fields of the host.

crate::field::fields! {
    /// A raw field of the host.
    HostField {
        Cpus = "cpus", Count, Gauge, "stat", "CPUs that are online";
        User = "user_ns", Nanoseconds, Counter, "stat", "time in user mode, without guests";
        Nice = "nice_ns", Nanoseconds, Counter, "stat", "time of niced processes, without guests";
        System = "system_ns", Nanoseconds, Counter, "stat", "time in the kernel";
        Idle = "idle_ns", Nanoseconds, Counter, "stat", "idle time";
        IoWait = "iowait_ns", Nanoseconds, Counter, "stat", "idle time with I/O outstanding";
        Interrupts = "irq_ns", Nanoseconds, Counter, "stat", "time in interrupts";
        SoftInterrupts = "softirq_ns", Nanoseconds, Counter, "stat", "time in soft interrupts";
        Steal = "steal_ns", Nanoseconds, Counter, "stat", "time stolen by a hypervisor below";
        Guest = "guest_ns", Nanoseconds, Counter, "stat", "time running virtual CPUs with KVM";
        Switches = "context_switches", Count, Counter, "stat ctxt", "context switches";
        Running = "running", Count, Gauge, "stat procs_running", "tasks that run or are ready";
        Total = "total_bytes", Bytes, Gauge, "meminfo MemTotal", "memory of the host";
        Free = "free_bytes", Bytes, Gauge, "meminfo MemFree", "memory that is not used at all";
        Available = "available_bytes", Bytes, Gauge, "meminfo MemAvailable",
            "memory that could be handed out without swapping";
        Buffers = "buffers_bytes", Bytes, Gauge, "meminfo Buffers", "cache of block devices";
        Cached = "cached_bytes", Bytes, Gauge, "meminfo Cached",
            "cache of files, including shared memory";
        SwapCached = "swap_cached_bytes", Bytes, Gauge, "meminfo SwapCached",
            "memory that is both in RAM and in swap";
        Shared = "shared_bytes", Bytes, Gauge, "meminfo Shmem", "shared memory and tmpfs";
        Anonymous = "anonymous_bytes", Bytes, Gauge, "meminfo AnonPages",
            "anonymous memory of processes: memory without a file";
        Slab = "slab_bytes", Bytes, Gauge, "meminfo Slab", "the kernel's own objects";
        PageTables = "page_tables_bytes", Bytes, Gauge, "meminfo PageTables",
            "page tables of processes";
        SecondaryTables = "secondary_tables_bytes", Bytes, Gauge, "meminfo SecPageTables",
            "page tables of guests (EPT, NPT)";
        KernelStack = "kernel_stack_bytes", Bytes, Gauge, "meminfo KernelStack",
            "kernel stacks of tasks";
        PerCpu = "percpu_bytes", Bytes, Gauge, "meminfo Percpu", "per-CPU memory";
        HugeTlb = "hugetlb_bytes", Bytes, Gauge, "meminfo Hugetlb", "huge pages set aside";
        Locked = "locked_bytes", Bytes, Gauge, "meminfo Mlocked",
            "memory that cannot be swapped out";
        Zswap = "zswap_bytes", Bytes, Gauge, "meminfo Zswap", "size of the zswap pool, compressed";
        Zswapped = "zswapped_bytes", Bytes, Gauge, "meminfo Zswapped",
            "data in the zswap pool, uncompressed size";
        SwapTotal = "swap_total_bytes", Bytes, Gauge, "meminfo SwapTotal", "size of the swap space";
        SwapFree = "swap_free_bytes", Bytes, Gauge, "meminfo SwapFree", "free swap space";
        SwapIn = "swap_in_pages", Pages, Counter, "vmstat pswpin", "pages read from swap devices";
        SwapOut = "swap_out_pages", Pages, Counter, "vmstat pswpout",
            "pages written to swap devices";
        ZswapIn = "zswap_in_pages", Pages, Counter, "vmstat zswpin", "pages loaded from zswap";
        ZswapOut = "zswap_out_pages", Pages, Counter, "vmstat zswpout", "pages stored in zswap";
        ZswapBack = "zswap_writeback_pages", Pages, Counter, "vmstat zswpwb",
            "pages moved from zswap to disk";
        MajorFaults = "major_faults", Count, Counter, "vmstat pgmajfault",
            "page faults that had to read from storage";
        Stalls = "stalls", Count, Counter, "vmstat allocstall_*",
            "allocations that had to wait for direct reclaim of memory";
        ScanDirect = "scan_direct_pages", Pages, Counter, "vmstat pgscan_direct",
            "pages scanned by direct reclaim";
        StealDirect = "steal_direct_pages", Pages, Counter, "vmstat pgsteal_direct",
            "pages freed by direct reclaim";
        ScanKswapd = "scan_kswapd_pages", Pages, Counter, "vmstat pgscan_kswapd",
            "pages scanned by kswapd";
        StealKswapd = "steal_kswapd_pages", Pages, Counter, "vmstat pgsteal_kswapd",
            "pages freed by kswapd";
        RefaultFile = "refault_file_pages", Pages, Counter, "vmstat",
            "pages of the cache that were read again soon after they were dropped";
        RefaultAnonymous = "refault_anonymous_pages", Pages, Counter, "vmstat",
            "anonymous pages that were read back soon after they were swapped out";
        OomKills = "oom_kills", Count, Counter, "vmstat oom_kill",
            "processes killed because memory ran out";
        PsiCpuSome = "psi_cpu_some_ns", Nanoseconds, Counter, "pressure/cpu",
            "time in which at least one task waited for a CPU";
        PsiMemorySome = "psi_memory_some_ns", Nanoseconds, Counter, "pressure/memory",
            "time in which at least one task waited for memory";
        PsiMemoryFull = "psi_memory_full_ns", Nanoseconds, Counter, "pressure/memory",
            "time in which all tasks waited for memory";
        PsiIoSome = "psi_io_some_ns", Nanoseconds, Counter, "pressure/io",
            "time in which at least one task waited for I/O";
        PsiIoFull = "psi_io_full_ns", Nanoseconds, Counter, "pressure/io",
            "time in which all tasks waited for I/O";
        KsmShared = "ksm_shared_pages", Pages, Gauge, "ksm/pages_shared",
            "shared pages that KSM keeps";
        KsmSharing = "ksm_sharing_pages", Pages, Gauge, "ksm/pages_sharing",
            "pages that KSM replaced by a shared page";
        KsmScans = "ksm_scans", Count, Counter, "ksm/full_scans",
            "complete scans of KSM over all its memory";
        KsmRun = "ksm_run_ns", Nanoseconds, Counter, "ksmd's schedstat", "CPU time of KSM";
        KswapdRun = "kswapd_run_ns", Nanoseconds, Counter, "kswapd's schedstat",
            "CPU time of kswapd";
        OwnRun = "own_run_ns", Nanoseconds, Counter, "the manager's clock",
            "CPU time of the manager and monitor";
        OwnResident = "own_resident_bytes", Bytes, Gauge, "the manager's statm",
            "private memory of the manager and monitor";
        SetPoint = "set_point_bytes", Bytes, Gauge, "manager",
            "free memory that the manager tries to keep";
        Guests = "guests", Count, Gauge, "manager", "guests that exist";
        GuestsAwake = "guests_awake", Count, Gauge, "manager",
            "guests that have run since their previous reading";
        ShedReadings = "shed_readings", Count, Counter, "the monitor",
            "readings of guests postponed because the host was short of memory";
        MissedMoments = "missed_moments", Count, Counter, "the monitor",
            "moments without readings because the monitor was late";
        OthersRun = "others_run_ns", Nanoseconds, Counter, "PID/stat 14 to 17 of all",
            "CPU time of all processes except guests and manager";
        KernelRun = "kernel_run_ns", Nanoseconds, Counter, "PID/stat 14 and 15 of all",
            "CPU time of kernel threads, including KSM and kswapd";
        MinWatermark = "watermark_min_bytes", Bytes, Gauge, "zoneinfo min",
            "free memory below which tasks must reclaim memory themselves, sum of all zones";
        LowWatermark = "watermark_low_bytes", Bytes, Gauge, "zoneinfo low",
            "free memory below which kswapd starts to reclaim memory, sum of all zones";
        HighWatermark = "watermark_high_bytes", Bytes, Gauge, "zoneinfo high",
            "free memory above which kswapd stops, sum of all zones";
        Images = "images", Count, Gauge, "PID/fd, stat",
            "image files that guests have open";
        ImageBytes = "image_bytes", Bytes, Gauge, "PID/fd, stat",
            "disk space of the image files that guests have open, each file counted once";
        ImagesCached = "image_cached_bytes", Bytes, Gauge, "cachestat",
            "part of these image files in the cache, each file counted once";
        CpuLists = "cpu_lists_bytes", Bytes, Gauge, "zoneinfo count",
            "free memory on per-CPU lists, which MemFree does not include";
        Together = "together_bytes", Bytes, Gauge, "PID/statm of guests",
            "memory that guests share; each template and the hypervisor's program count once";
        Ballooned = "ballooned_bytes", Bytes, Gauge, "manager",
            "memory that balloons have taken from guests";
        PageOuts = "page_outs", Count, Counter, "manager",
            "times that the manager paged out a guest";
        PagedOut = "paged_out_bytes", Bytes, Counter, "PID/status",
            "memory that page-out removed from the host's memory";
        PagedOutStored = "paged_out_stored_bytes", Bytes, Counter, "zram mm_stat",
            "growth of compressed swap during page-out";
        CameBack = "came_back_bytes", Bytes, Counter, "PID/status",
            "paged-out memory that came back when guests used it";
        PageOutRun = "page_out_run_ns", Nanoseconds, Counter, "the manager's clock",
            "CPU time of page-out, a part of the manager's CPU time";
        Spare = "spare_bytes", Bytes, Gauge, "meminfo, budget",
            "memory that guests could still get, within the memory that all guests may use";
    }
}
