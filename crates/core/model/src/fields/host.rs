//! Recorded fields of the host.

crate::field::fields! {
    /// A raw field of the host.
    HostField {
        Cpus = "cpus", Count, Gauge, "stat", "CPUs that are online";
        User = "user_ns", Nanoseconds, Counter, "stat", "time in user mode, guests left out";
        Nice = "nice_ns", Nanoseconds, Counter, "stat",
            "time of niced processes, guests left out";
        System = "system_ns", Nanoseconds, Counter, "stat", "time in the kernel";
        Idle = "idle_ns", Nanoseconds, Counter, "stat", "idle time";
        IoWait = "iowait_ns", Nanoseconds, Counter, "stat", "idle time with I/O outstanding";
        Interrupts = "irq_ns", Nanoseconds, Counter, "stat", "time in interrupts";
        SoftInterrupts = "softirq_ns", Nanoseconds, Counter, "stat", "time in soft interrupts";
        Steal = "steal_ns", Nanoseconds, Counter, "stat", "time stolen by a hypervisor below";
        Guest = "guest_ns", Nanoseconds, Counter, "stat", "time running virtual CPUs by KVM";
        Switches = "context_switches", Count, Counter, "stat ctxt", "context switches";
        Running = "running", Count, Gauge, "stat procs_running", "tasks that run or could";
        Total = "total_bytes", Bytes, Gauge, "meminfo MemTotal", "its memory";
        Free = "free_bytes", Bytes, Gauge, "meminfo MemFree", "memory that is not used at all";
        Available = "available_bytes", Bytes, Gauge, "meminfo MemAvailable",
            "what could be handed out without swapping";
        Buffers = "buffers_bytes", Bytes, Gauge, "meminfo Buffers", "cache of block devices";
        Cached = "cached_bytes", Bytes, Gauge, "meminfo Cached",
            "cache of files, shared memory included";
        SwapCached = "swap_cached_bytes", Bytes, Gauge, "meminfo SwapCached",
            "in memory and in swap";
        Shared = "shared_bytes", Bytes, Gauge, "meminfo Shmem", "shared memory and tmpfs";
        Anonymous = "anonymous_bytes", Bytes, Gauge, "meminfo AnonPages",
            "memory of processes that no file stands behind";
        Slab = "slab_bytes", Bytes, Gauge, "meminfo Slab", "the kernel's own objects";
        PageTables = "page_tables_bytes", Bytes, Gauge, "meminfo PageTables",
            "page tables of processes";
        SecondaryTables = "secondary_tables_bytes", Bytes, Gauge, "meminfo SecPageTables",
            "page tables of guests (EPT, NPT)";
        KernelStack = "kernel_stack_bytes", Bytes, Gauge, "meminfo KernelStack",
            "stacks of tasks in the kernel";
        PerCpu = "percpu_bytes", Bytes, Gauge, "meminfo Percpu", "memory of single CPUs";
        HugeTlb = "hugetlb_bytes", Bytes, Gauge, "meminfo Hugetlb", "huge pages set aside";
        Locked = "locked_bytes", Bytes, Gauge, "meminfo Mlocked",
            "memory that cannot be swapped out";
        Zswap = "zswap_bytes", Bytes, Gauge, "meminfo Zswap", "the zswap pool, compressed";
        Zswapped = "zswapped_bytes", Bytes, Gauge, "meminfo Zswapped",
            "what is in it, uncompressed";
        SwapTotal = "swap_total_bytes", Bytes, Gauge, "meminfo SwapTotal", "swap space";
        SwapFree = "swap_free_bytes", Bytes, Gauge, "meminfo SwapFree",
            "swap space that is free";
        SwapIn = "swap_in_pages", Pages, Counter, "vmstat pswpin", "pages read from swap";
        SwapOut = "swap_out_pages", Pages, Counter, "vmstat pswpout", "pages written to swap";
        ZswapIn = "zswap_in_pages", Pages, Counter, "vmstat zswpin", "pages loaded from zswap";
        ZswapOut = "zswap_out_pages", Pages, Counter, "vmstat zswpout", "pages stored in zswap";
        ZswapBack = "zswap_writeback_pages", Pages, Counter, "vmstat zswpwb",
            "pages moved from zswap to disk";
        MajorFaults = "major_faults", Count, Counter, "vmstat pgmajfault",
            "faults that had to read";
        Stalls = "stalls", Count, Counter, "vmstat allocstall_*",
            "allocations that had to reclaim memory themselves";
        ScanDirect = "scan_direct_pages", Pages, Counter, "vmstat pgscan_direct",
            "pages scanned by tasks that need memory";
        StealDirect = "steal_direct_pages", Pages, Counter, "vmstat pgsteal_direct",
            "pages they got so";
        ScanKswapd = "scan_kswapd_pages", Pages, Counter, "vmstat pgscan_kswapd",
            "pages scanned by kswapd";
        StealKswapd = "steal_kswapd_pages", Pages, Counter, "vmstat pgsteal_kswapd",
            "pages it got so";
        RefaultFile = "refault_file_pages", Pages, Counter, "vmstat",
            "cache needed again soon after it was dropped";
        RefaultAnonymous = "refault_anonymous_pages", Pages, Counter, "vmstat",
            "memory needed again soon after it was swapped out";
        OomKills = "oom_kills", Count, Counter, "vmstat oom_kill",
            "processes killed because memory ran out";
        PsiCpuSome = "psi_cpu_some_ns", Nanoseconds, Counter, "pressure/cpu",
            "time some task waited for a CPU";
        PsiMemorySome = "psi_memory_some_ns", Nanoseconds, Counter, "pressure/memory",
            "time some task waited for memory";
        PsiMemoryFull = "psi_memory_full_ns", Nanoseconds, Counter, "pressure/memory",
            "time all tasks waited for memory";
        PsiIoSome = "psi_io_some_ns", Nanoseconds, Counter, "pressure/io",
            "time some task waited for I/O";
        PsiIoFull = "psi_io_full_ns", Nanoseconds, Counter, "pressure/io",
            "time all tasks waited for I/O";
        KsmShared = "ksm_shared_pages", Pages, Gauge, "ksm/pages_shared",
            "pages that KSM keeps once for several";
        KsmSharing = "ksm_sharing_pages", Pages, Gauge, "ksm/pages_sharing",
            "pages that have no place of their own any more";
        KsmScans = "ksm_scans", Count, Counter, "ksm/full_scans",
            "times KSM has looked at everything";
        KsmRun = "ksm_run_ns", Nanoseconds, Counter, "ksmd's schedstat", "CPU time of KSM";
        KswapdRun = "kswapd_run_ns", Nanoseconds, Counter, "kswapd's schedstat",
            "CPU time of kswapd";
        OwnRun = "own_run_ns", Nanoseconds, Counter, "the manager's clock",
            "CPU time of the manager and monitor";
        OwnResident = "own_resident_bytes", Bytes, Gauge, "the manager's statm",
            "what it has for itself";
        SetPoint = "set_point_bytes", Bytes, Gauge, "manager",
            "the free memory that the host is to have";
        Guests = "guests", Count, Gauge, "manager", "guests that are there";
        GuestsAwake = "guests_awake", Count, Gauge, "manager",
            "guests that ran since they were looked at last";
        ShedReadings = "shed_readings", Count, Counter, "the monitor",
            "readings of guests put off because the host was short";
        MissedMoments = "missed_moments", Count, Counter, "the monitor",
            "moments that were not looked at because the monitor was late";
        OthersRun = "others_run_ns", Nanoseconds, Counter, "PID/stat 14 to 17 of all",
            "CPU time of processes that are no guests and not the manager";
        KernelRun = "kernel_run_ns", Nanoseconds, Counter, "PID/stat 14 and 15 of all",
            "CPU time of the kernel's threads, KSM's and kswapd's included";
        MinWatermark = "watermark_min_bytes", Bytes, Gauge, "zoneinfo min",
            "free memory below which tasks must reclaim some themselves";
        LowWatermark = "watermark_low_bytes", Bytes, Gauge, "zoneinfo low",
            "free memory below which kswapd begins";
        HighWatermark = "watermark_high_bytes", Bytes, Gauge, "zoneinfo high",
            "free memory at which it ends";
        Images = "images", Count, Gauge, "PID/fd, stat",
            "image files that guests have open";
        ImageBytes = "image_bytes", Bytes, Gauge, "PID/fd, stat",
            "what they take on the disk, each counted once";
        ImagesCached = "image_cached_bytes", Bytes, Gauge, "cachestat",
            "what of them is in the cache, each counted once";
        CpuLists = "cpu_lists_bytes", Bytes, Gauge, "zoneinfo count",
            "free memory in the lists of single CPUs, which MemFree leaves out";
        Together = "together_bytes", Bytes, Gauge, "PID/statm of guests",
            "what guests have together, each template and the hypervisor's program once";
        Ballooned = "ballooned_bytes", Bytes, Gauge, "manager",
            "memory that the host has because of balloons";
        PageOuts = "page_outs", Count, Counter, "manager", "times that a guest was paged out";
        PagedOut = "paged_out_bytes", Bytes, Counter, "PID/status",
            "what left the host's memory by that";
        PagedOutStored = "paged_out_stored_bytes", Bytes, Counter, "zram mm_stat",
            "what compressed memory grew by as it did";
        CameBack = "came_back_bytes", Bytes, Counter, "PID/status",
            "what was seen to come back of it";
        PageOutRun = "page_out_run_ns", Nanoseconds, Counter, "the manager's clock",
            "CPU time of page-out, a part of the manager's";
        Spare = "spare_bytes", Bytes, Gauge, "meminfo, budget",
            "what could be handed out, of what guests may use together";
    }
}
