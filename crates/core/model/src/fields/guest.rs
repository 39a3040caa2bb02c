//! Recorded fields of a guest.

crate::field::fields! {
    /// A raw field of a guest: first those seen from the host, last those reported by its daemon.
    GuestField {
        VcpuRun = "vcpu_run_ns", Nanoseconds, Counter, "task/TID/schedstat",
            "time its virtual CPUs ran on a host CPU";
        VcpuDelay = "vcpu_delay_ns", Nanoseconds, Counter, "task/TID/schedstat",
            "time they were ready and did not run: steal";
        VcpuDispatches = "vcpu_dispatches", Count, Counter, "task/TID/schedstat",
            "times they were dispatched";
        VcpuGuest = "vcpu_guest_ns", Nanoseconds, Counter, "task/TID/stat 43",
            "time they ran the guest's own code; missing under emulation";
        VcpuBlockIo = "vcpu_block_io_ns", Nanoseconds, Counter, "task/TID/stat 42",
            "time they waited for block I/O, where the kernel counts it";
        Vcpus = "vcpus", Count, Gauge, "QMP query-cpus-fast", "virtual CPUs";
        OtherRun = "other_run_ns", Nanoseconds, Counter, "task/TID/schedstat",
            "time the process's other threads ran";
        OtherDelay = "other_delay_ns", Nanoseconds, Counter, "task/TID/schedstat",
            "time they were ready and did not run";
        OtherDispatches = "other_dispatches", Count, Counter, "task/TID/schedstat",
            "times they were dispatched";
        HaltPoll = "halt_poll_ns", Nanoseconds, Counter, "KVM statistics",
            "time the host polled for a halted virtual CPU";
        HaltWait = "halt_wait_ns", Nanoseconds, Counter, "KVM statistics",
            "time virtual CPUs were halted";
        HaltWakeups = "halt_wakeups", Count, Counter, "KVM statistics",
            "times a halted virtual CPU was woken";
        Exits = "exits", Count, Counter, "KVM statistics", "times a virtual CPU left the guest";
        Throttled = "throttled_ns", Nanoseconds, Counter, "cgroup cpu.stat",
            "time it was held back by a limit of its cgroup";
        Resident = "resident_bytes", Bytes, Gauge, "PID/statm",
            "what of the process is in the host's memory";
        Swapped = "swapped_bytes", Bytes, Gauge, "PID/status VmSwap",
            "what of it the host has swapped out";
        Locked = "locked_bytes", Bytes, Gauge, "PID/status VmLck",
            "what of it cannot be swapped out";
        MinorFaults = "minor_faults", Count, Counter, "PID/stat 10",
            "faults of the process that needed no reading";
        MajorFaults = "major_faults", Count, Counter, "PID/stat 12",
            "faults of it for which the host had to read";
        Merged = "merged_pages", Pages, Gauge, "PID/ksm_merging_pages",
            "pages that KSM shares with others";
        PsiCpu = "psi_cpu_ns", Nanoseconds, Counter, "cgroup cpu.pressure",
            "time some task of its cgroup waited for a CPU";
        PsiMemory = "psi_memory_ns", Nanoseconds, Counter, "cgroup memory.pressure",
            "time some task of its cgroup waited for memory";
        PsiIo = "psi_io_ns", Nanoseconds, Counter, "cgroup io.pressure",
            "time some task of its cgroup waited for I/O";
        ReadBytes = "read_bytes", Bytes, Counter, "PID/io",
            "what the process had to fetch from storage";
        WriteBytes = "write_bytes", Bytes, Counter, "PID/io", "what it sent to storage";
        ReadCalls = "read_calls", Count, Counter, "PID/io syscr", "its calls that read";
        WriteCalls = "write_calls", Count, Counter, "PID/io syscw", "its calls that wrote";
        Memory = "memory_bytes", Bytes, Gauge, "hypervisor",
            "the memory that it was started with";
        Actual = "actual_bytes", Bytes, Gauge, "balloon", "the memory that it has";
        Target = "target_bytes", Bytes, Gauge, "manager", "the target of its balloon";
        Minimum = "minimum_bytes", Bytes, Gauge, "manager", "it never gets less";
        Reported = "reported_bytes", Bytes, Counter, "manager",
            "free memory that came back by page reporting";
        OwnTotal = "own_total_bytes", Bytes, Gauge, "daemon, meminfo", "MemTotal";
        OwnFree = "own_free_bytes", Bytes, Gauge, "daemon, meminfo", "MemFree";
        OwnAvailable = "own_available_bytes", Bytes, Gauge, "daemon, meminfo", "MemAvailable";
        OwnCached = "own_cached_bytes", Bytes, Gauge, "daemon, meminfo", "Cached";
        OwnActiveFile = "own_active_file_bytes", Bytes, Gauge, "daemon, meminfo",
            "Active(file)";
        OwnAnonymous = "own_anonymous_bytes", Bytes, Gauge, "daemon, meminfo", "AnonPages";
        OwnSwapTotal = "own_swap_total_bytes", Bytes, Gauge, "daemon, meminfo", "SwapTotal";
        OwnSwapFree = "own_swap_free_bytes", Bytes, Gauge, "daemon, meminfo", "SwapFree";
        OwnSwapIn = "own_swap_in_pages", Pages, Counter, "daemon, vmstat",
            "pages read from its swap space";
        OwnSwapOut = "own_swap_out_pages", Pages, Counter, "daemon, vmstat",
            "pages written to its swap space";
        OwnRefaultFile = "own_refault_file_pages", Pages, Counter, "daemon, vmstat",
            "cache needed again soon after it was dropped";
        OwnRefaultAnonymous = "own_refault_anonymous_pages", Pages, Counter, "daemon, vmstat",
            "memory needed again soon after it was swapped out";
        OwnStalls = "own_stalls", Count, Counter, "daemon, vmstat",
            "allocations that had to reclaim memory themselves";
        OwnOomKills = "own_oom_kills", Count, Counter, "daemon, vmstat",
            "processes killed because memory ran out";
        OwnMajorFaults = "own_major_faults", Count, Counter, "daemon, vmstat",
            "faults that had to read";
        OwnPsiSome = "own_psi_some_ns", Nanoseconds, Counter, "daemon, pressure/memory",
            "time some task waited for memory";
        OwnPsiFull = "own_psi_full_ns", Nanoseconds, Counter, "daemon, pressure/memory",
            "time all tasks waited for memory";
        OwnCpus = "own_cpus", Count, Gauge, "daemon, status", "CPUs that are online in it";
        OwnBusy = "own_busy_ticks", Ticks, Counter, "daemon, status",
            "ticks that its CPUs were busy";
        OwnIdle = "own_idle_ticks", Ticks, Counter, "daemon, status",
            "ticks that they were idle";
        OwnSteal = "own_steal_ticks", Ticks, Counter, "daemon, status",
            "ticks stolen from them, as it counts";
        OwnPool = "own_pool_pages", Pages, Gauge, "daemon, status",
            "the pool that its rules have given up";
        OwnPlugs = "own_plugs", Count, Counter, "daemon, status", "CPUs plugged by its rules";
        OwnUnplugs = "own_unplugs", Count, Counter, "daemon, status",
            "CPUs unplugged by its rules";
        Bursts50 = "bursts_below_50ms", Count, Counter, "task/TID/schedstat, each second",
            "stretches of work of its virtual CPUs that took less than 0.05 s, waits included";
        Bursts200 = "bursts_below_200ms", Count, Counter, "task/TID/schedstat, each second",
            "those that took less than 0.2 s, and no less than 0.05 s";
        Bursts1000 = "bursts_below_1s", Count, Counter, "task/TID/schedstat, each second",
            "those that took less than 1 s, and no less than 0.2 s";
        BurstsLong = "bursts_longer", Count, Counter, "task/TID/schedstat, each second",
            "those that took 1 s or longer";
        IdleShort = "vcpu_idle_short_ns", Nanoseconds, Counter, "task/TID/schedstat, each second",
            "time its virtual CPUs rested for less than 0.3 s on end";
        OwnLoad = "own_load_permille", Permille, Gauge, "daemon, loadavg",
            "its load average of a minute";
        OwnRunning = "own_running", Count, Gauge, "daemon, stat procs_running",
            "its tasks that run or could, the daemon being one of them";
        OwnBlocked = "own_blocked", Count, Gauge, "daemon, stat procs_blocked",
            "its tasks that wait for storage";
        OwnRootUsed = "own_root_used_permille", Permille, Gauge, "daemon, statvfs",
            "what of its root file system is used";
        OwnReceived = "own_received_bytes", Bytes, Counter, "daemon, net/dev",
            "what came by its network";
        OwnReceivedPackets = "own_received_packets", Count, Counter, "daemon, net/dev",
            "packets that came so";
        OwnSent = "own_sent_bytes", Bytes, Counter, "daemon, net/dev",
            "what went by its network";
        OwnSentPackets = "own_sent_packets", Count, Counter, "daemon, net/dev",
            "packets that went so";
        OwnGrows = "own_grows", Count, Counter, "daemon, status", "times its rules gave up memory";
        OwnShrinks = "own_shrinks", Count, Counter, "daemon, status",
            "times its rules took memory back";
        OwnWorkingSet = "own_working_set_bytes", Bytes, Gauge, "daemon, balloon",
            "its working set: what it has less what is available in it, and active cache; earlier \
             recordings have anonymous memory and active cache, or no cache without a daemon";
        Images = "image_bytes", Bytes, Gauge, "PID/fd, stat",
            "what the image files that it has open take on the disk";
        ImagesCached = "image_cached_bytes", Bytes, Gauge, "cachestat",
            "what of them is in the host's cache";
        BlockReads = "block_reads", Count, Counter, "QMP query-blockstats",
            "requests of the guest that read";
        BlockReadBytes = "block_read_bytes", Bytes, Counter, "QMP query-blockstats",
            "what it read so";
        BlockWrites = "block_writes", Count, Counter, "QMP query-blockstats",
            "requests of it that wrote";
        BlockWriteBytes = "block_write_bytes", Bytes, Counter, "QMP query-blockstats",
            "what it wrote so";
        NetInPackets = "net_in_packets", Count, Counter, "PID/fdinfo, class/net",
            "packets that went to it through its tap devices";
        NetInBytes = "net_in_bytes", Bytes, Counter, "PID/fdinfo, class/net", "their bytes";
        NetOutPackets = "net_out_packets", Count, Counter, "PID/fdinfo, class/net",
            "packets that came from it through them";
        NetOutBytes = "net_out_bytes", Bytes, Counter, "PID/fdinfo, class/net", "their bytes";
        Low = "group_low_bytes", Bytes, Gauge, "cgroup memory.low",
            "what its cgroup keeps while others have more than their share";
        GroupSwap = "group_swap_bytes", Bytes, Gauge, "cgroup memory.swap.current",
            "what its cgroup has swapped out, to any tier";
        GroupZswapped = "group_zswapped_bytes", Bytes, Gauge, "cgroup memory.stat zswapped",
            "what of that is in zswap, uncompressed";
        GroupZswapIn = "group_zswap_in_pages", Pages, Counter, "cgroup memory.stat zswpin",
            "pages that came back from zswap";
        GroupZswapOut = "group_zswap_out_pages", Pages, Counter, "cgroup memory.stat zswpout",
            "pages that went to zswap";
        GroupZswapBack = "group_zswap_writeback_pages", Pages, Counter,
            "cgroup memory.stat zswpwb", "pages moved from zswap to disk";
        GroupSwapIn = "group_swap_in_pages", Pages, Counter, "cgroup memory.stat pswpin",
            "pages read from swap devices";
        GroupSwapOut = "group_swap_out_pages", Pages, Counter, "cgroup memory.stat pswpout",
            "pages written to swap devices";
        GroupRefaultAnonymous = "group_refault_anonymous_pages", Pages, Counter,
            "cgroup memory.stat", "its memory, needed again soon after the host swapped it out";
        GroupRefaultFile = "group_refault_file_pages", Pages, Counter, "cgroup memory.stat",
            "cache of its files, needed again soon after the host dropped it";
        OtherBlockIo = "other_block_io_ns", Nanoseconds, Counter, "task/TID/stat 42",
            "time the process's other threads waited for block I/O, where the kernel counts it";
        OwnRun = "own_run_ns", Nanoseconds, Counter, "daemon, schedstat",
            "time that tasks ran in it, as it counted when it reported its processes last";
        RunThen = "vcpu_run_then_ns", Nanoseconds, Counter, "task/TID/schedstat",
            "time its virtual CPUs had run on the host then";
        BalloonTime = "balloon_time_ns", Nanoseconds, Counter, "balloon last-update",
            "when its balloon's statistics were true, since 1970: to the second";
        BalloonTotal = "balloon_total_bytes", Bytes, Gauge, "balloon stat-total-memory",
            "its memory, by its balloon's statistics, as are the next ones";
        BalloonFree = "balloon_free_bytes", Bytes, Gauge, "balloon stat-free-memory",
            "memory that it does not use at all";
        BalloonAvailable = "balloon_available_bytes", Bytes, Gauge,
            "balloon stat-available-memory", "what it could hand out without swapping";
        BalloonCached = "balloon_cached_bytes", Bytes, Gauge, "balloon stat-disk-caches",
            "its cache of files";
        BalloonSwapIn = "balloon_swap_in_bytes", Bytes, Counter, "balloon stat-swap-in",
            "what it read from its swap space";
        BalloonSwapOut = "balloon_swap_out_bytes", Bytes, Counter, "balloon stat-swap-out",
            "what it wrote to its swap space";
        BalloonMajorFaults = "balloon_major_faults", Count, Counter,
            "balloon stat-major-faults", "its faults that had to read";
        OwnTime = "own_time_ns", Nanoseconds, Counter, "daemon, uptime",
            "its time since its boot, when it reported its memory last";
        OwnInactiveFile = "own_inactive_file_bytes", Bytes, Gauge, "daemon, meminfo",
            "Inactive(file)";
        OwnCpusPresent = "own_cpus_present", Count, Gauge, "daemon, status",
            "CPUs that it has, online or not";
        OwnRulesTotal = "own_rules_total_bytes", Bytes, Gauge, "daemon, status",
            "MemTotal as its rules see it";
        OwnRulesFree = "own_rules_free_bytes", Bytes, Gauge, "daemon, status",
            "MemFree as its rules see it";
        OwnRulesAvailable = "own_rules_available_bytes", Bytes, Gauge, "daemon, status",
            "MemAvailable as its rules see it";
        OwnSettled = "own_settled", Count, Gauge, "daemon, status",
            "1 while nothing changes and its rules need not look, else 0";
        OwnLoad5 = "own_load_5_permille", Permille, Gauge, "daemon, loadavg",
            "its load average of 5 minutes";
        OwnLoad15 = "own_load_15_permille", Permille, Gauge, "daemon, loadavg",
            "its load average of 15 minutes";
        OwnRootTotal = "own_root_total_bytes", Bytes, Gauge, "daemon, statvfs",
            "the size of its root file system";
        OwnRootAvailable = "own_root_available_bytes", Bytes, Gauge, "daemon, statvfs",
            "what of that is available to everybody";
        OwnDispatches = "own_dispatches", Count, Counter, "daemon, schedstat",
            "times that its CPUs were given to a task, once a minute as the next ones";
        OwnContextSwitches = "own_context_switches", Count, Counter, "daemon, stat ctxt",
            "context switches, those to nothing included";
        OwnForks = "own_forks", Count, Counter, "daemon, stat processes",
            "tasks that were started in it";
        OwnInterrupts = "own_interrupts", Count, Counter, "daemon, stat intr", "interrupts";
        OwnSoftInterrupts = "own_soft_interrupts", Count, Counter, "daemon, stat softirq",
            "soft interrupts";
        OwnTimers = "own_timers", Count, Counter, "daemon, stat softirq",
            "those of them for timers";
        OwnInterruptTime = "own_interrupt_ticks", Ticks, Counter, "daemon, stat",
            "ticks that its CPUs were in interrupts";
        OwnTasks = "own_tasks", Count, Gauge, "daemon, loadavg", "its tasks";
        Private = "private_bytes", Bytes, Gauge, "PID/statm",
            "what its process has in the host's memory for itself";
        Together = "together_bytes", Bytes, Gauge, "PID/statm",
            "what its process has there that others may have as well: a template, programs";
        Hypervisor = "hypervisor_bytes", Bytes, Gauge, "PID/smaps, PID/statm",
            "what of the private part is its hypervisor's own, and no memory of the guest";
        Compressed = "compressed_bytes", Bytes, Gauge, "PID/status VmSwap, zram mm_stat, meminfo",
            "what of the host's memory its swapped part takes: as all that is swapped, on average";
        Parked = "parked_ns", Nanoseconds, Counter, "QMP, libvirt, farm",
            "time that it stood still because it was parked";
    }
}
