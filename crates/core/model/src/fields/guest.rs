//! Recorded fields of a guest.

crate::field::fields! {
    /// A raw field of a guest, seen from the host or reported by the guest. The names of fields
    /// that the guest's daemon reports begin with `own_`.
    GuestField {
        VcpuRun = "vcpu_run_ns", Nanoseconds, Counter, "task/TID/schedstat",
            "run time of the virtual CPUs";
        VcpuDelay = "vcpu_delay_ns", Nanoseconds, Counter, "task/TID/schedstat",
            "time in which virtual CPUs were ready but did not run: steal";
        VcpuDispatches = "vcpu_dispatches", Count, Counter, "task/TID/schedstat",
            "dispatches of virtual CPUs";
        VcpuGuest = "vcpu_guest_ns", Nanoseconds, Counter, "task/TID/stat 43",
            "time in which virtual CPUs ran the guest's own code; missing under emulation";
        VcpuBlockIo = "vcpu_block_io_ns", Nanoseconds, Counter, "task/TID/stat 42",
            "time in which virtual CPUs waited for block I/O; missing if the kernel does not count \
             it";
        Vcpus = "vcpus", Count, Gauge, "QMP query-cpus-fast", "number of virtual CPUs";
        OtherRun = "other_run_ns", Nanoseconds, Counter, "task/TID/schedstat",
            "run time of the process's other threads";
        OtherDelay = "other_delay_ns", Nanoseconds, Counter, "task/TID/schedstat",
            "time in which the process's other threads were ready but did not run";
        OtherDispatches = "other_dispatches", Count, Counter, "task/TID/schedstat",
            "dispatches of the process's other threads";
        HaltPoll = "halt_poll_ns", Nanoseconds, Counter, "KVM statistics",
            "time in which the host polled for a halted virtual CPU";
        HaltWait = "halt_wait_ns", Nanoseconds, Counter, "KVM statistics",
            "time in which virtual CPUs were halted";
        HaltWakeups = "halt_wakeups", Count, Counter, "KVM statistics",
            "wake-ups of halted virtual CPUs";
        Exits = "exits", Count, Counter, "KVM statistics",
            "exits of virtual CPUs from the guest's code to the hypervisor";
        Throttled = "throttled_ns", Nanoseconds, Counter, "cgroup cpu.stat",
            "time in which a CPU limit of the cgroup stopped the guest";
        Resident = "resident_bytes", Bytes, Gauge, "PID/statm",
            "resident memory of the guest's process";
        Swapped = "swapped_bytes", Bytes, Gauge, "PID/status VmSwap",
            "memory of the process that the host has swapped out";
        Locked = "locked_bytes", Bytes, Gauge, "PID/status VmLck",
            "memory of the process that cannot be swapped out";
        MinorFaults = "minor_faults", Count, Counter, "PID/stat 10",
            "page faults of the process that needed no read";
        MajorFaults = "major_faults", Count, Counter, "PID/stat 12",
            "page faults of the process for which the host had to read from storage";
        Merged = "merged_pages", Pages, Gauge, "PID/ksm_merging_pages",
            "pages of the process that KSM shares";
        PsiCpu = "psi_cpu_ns", Nanoseconds, Counter, "cgroup cpu.pressure",
            "time in which at least one task of the cgroup waited for a CPU";
        PsiMemory = "psi_memory_ns", Nanoseconds, Counter, "cgroup memory.pressure",
            "time in which at least one task of the cgroup waited for memory";
        PsiIo = "psi_io_ns", Nanoseconds, Counter, "cgroup io.pressure",
            "time in which at least one task of the cgroup waited for I/O";
        ReadBytes = "read_bytes", Bytes, Counter, "PID/io",
            "bytes fetched from storage for the process";
        WriteBytes = "write_bytes", Bytes, Counter, "PID/io",
            "bytes that the process sent to storage";
        ReadCalls = "read_calls", Count, Counter, "PID/io syscr", "read calls of the process";
        WriteCalls = "write_calls", Count, Counter, "PID/io syscw", "write calls of the process";
        Memory = "memory_bytes", Bytes, Gauge, "hypervisor",
            "memory that the guest was started with";
        Actual = "actual_bytes", Bytes, Gauge, "balloon",
            "memory that the balloon leaves to the guest";
        Target = "target_bytes", Bytes, Gauge, "manager", "target of the balloon";
        Minimum = "minimum_bytes", Bytes, Gauge, "manager",
            "smallest memory that the manager leaves to the guest";
        Reported = "reported_bytes", Bytes, Counter, "manager",
            "free memory that the guest returned by page reporting";
        OwnTotal = "own_total_bytes", Bytes, Gauge, "daemon, meminfo", "MemTotal of the guest";
        OwnFree = "own_free_bytes", Bytes, Gauge, "daemon, meminfo", "MemFree of the guest";
        OwnAvailable = "own_available_bytes", Bytes, Gauge, "daemon, meminfo",
            "MemAvailable of the guest";
        OwnCached = "own_cached_bytes", Bytes, Gauge, "daemon, meminfo", "Cached of the guest";
        OwnActiveFile = "own_active_file_bytes", Bytes, Gauge, "daemon, meminfo",
            "Active(file) of the guest";
        OwnAnonymous = "own_anonymous_bytes", Bytes, Gauge, "daemon, meminfo",
            "AnonPages of the guest";
        OwnSwapTotal = "own_swap_total_bytes", Bytes, Gauge, "daemon, meminfo",
            "SwapTotal of the guest";
        OwnSwapFree = "own_swap_free_bytes", Bytes, Gauge, "daemon, meminfo",
            "SwapFree of the guest";
        OwnSwapIn = "own_swap_in_pages", Pages, Counter, "daemon, vmstat",
            "pages that the guest read from its swap space";
        OwnSwapOut = "own_swap_out_pages", Pages, Counter, "daemon, vmstat",
            "pages that the guest wrote to its swap space";
        OwnRefaultFile = "own_refault_file_pages", Pages, Counter, "daemon, vmstat",
            "pages of the guest's cache that were read again soon after they were dropped";
        OwnRefaultAnonymous = "own_refault_anonymous_pages", Pages, Counter, "daemon, vmstat",
            "pages that the guest read back soon after it had swapped them out";
        OwnStalls = "own_stalls", Count, Counter, "daemon, vmstat",
            "allocations in the guest that had to wait for direct reclaim of memory";
        OwnOomKills = "own_oom_kills", Count, Counter, "daemon, vmstat",
            "processes that the guest's kernel killed because memory ran out";
        OwnMajorFaults = "own_major_faults", Count, Counter, "daemon, vmstat",
            "page faults for which the guest had to read from its disks";
        OwnPsiSome = "own_psi_some_ns", Nanoseconds, Counter, "daemon, pressure/memory",
            "time in which at least one task of the guest waited for memory";
        OwnPsiFull = "own_psi_full_ns", Nanoseconds, Counter, "daemon, pressure/memory",
            "time in which all tasks of the guest waited for memory";
        OwnCpus = "own_cpus", Count, Gauge, "daemon, status", "CPUs that are online in the guest";
        OwnBusy = "own_busy_ticks", Ticks, Counter, "daemon, status",
            "busy ticks of the guest's CPUs";
        OwnIdle = "own_idle_ticks", Ticks, Counter, "daemon, status",
            "idle ticks of the guest's CPUs";
        OwnSteal = "own_steal_ticks", Ticks, Counter, "daemon, status",
            "ticks stolen from the guest's CPUs, by the guest's count";
        OwnPool = "own_pool_pages", Pages, Gauge, "daemon, status",
            "pages in the pool that the daemon's rules have given up";
        OwnPlugs = "own_plugs", Count, Counter, "daemon, status",
            "CPUs that the daemon's rules plugged";
        OwnUnplugs = "own_unplugs", Count, Counter, "daemon, status",
            "CPUs that the daemon's rules unplugged";
        Bursts50 = "bursts_below_50ms", Count, Counter, "task/TID/schedstat, each second",
            "bursts of work of virtual CPUs shorter than 0.05 s, including waits for a CPU";
        Bursts200 = "bursts_below_200ms", Count, Counter, "task/TID/schedstat, each second",
            "bursts from 0.05 s to 0.2 s";
        Bursts1000 = "bursts_below_1s", Count, Counter, "task/TID/schedstat, each second",
            "bursts from 0.2 s to 1 s";
        BurstsLong = "bursts_longer", Count, Counter, "task/TID/schedstat, each second",
            "bursts of 1 s and longer";
        IdleShort = "vcpu_idle_short_ns", Nanoseconds, Counter, "task/TID/schedstat, each second",
            "time in which virtual CPUs were halted in pauses shorter than 0.3 s";
        OwnLoad = "own_load_permille", Permille, Gauge, "daemon, loadavg",
            "load average of the guest over 1 minute";
        OwnRunning = "own_running", Count, Gauge, "daemon, stat procs_running",
            "tasks of the guest that run or are ready, including its daemon";
        OwnBlocked = "own_blocked", Count, Gauge, "daemon, stat procs_blocked",
            "tasks of the guest that wait for storage";
        OwnRootUsed = "own_root_used_permille", Permille, Gauge, "daemon, statvfs",
            "used part of the guest's root file system";
        OwnReceived = "own_received_bytes", Bytes, Counter, "daemon, net/dev",
            "bytes that the guest received by network, without loop-back";
        OwnReceivedPackets = "own_received_packets", Count, Counter, "daemon, net/dev",
            "packets that the guest received by network, without loop-back";
        OwnSent = "own_sent_bytes", Bytes, Counter, "daemon, net/dev",
            "bytes that the guest sent by network, without loop-back";
        OwnSentPackets = "own_sent_packets", Count, Counter, "daemon, net/dev",
            "packets that the guest sent by network, without loop-back";
        OwnGrows = "own_grows", Count, Counter, "daemon, status",
            "times that the daemon's rules gave up memory";
        OwnShrinks = "own_shrinks", Count, Counter, "daemon, status",
            "times that the daemon's rules took memory back";
        OwnWorkingSet = "own_working_set_bytes", Bytes, Gauge, "daemon, balloon",
            "working set of the guest: actual less available memory, plus active cache; earlier \
             recordings have other values, so reports do not use this column";
        Images = "image_bytes", Bytes, Gauge, "PID/fd, stat",
            "disk space of the image files that the process has open";
        ImagesCached = "image_cached_bytes", Bytes, Gauge, "cachestat",
            "part of these image files in the host's cache";
        BlockReads = "block_reads", Count, Counter, "QMP query-blockstats",
            "read requests of the guest to its disks";
        BlockReadBytes = "block_read_bytes", Bytes, Counter, "QMP query-blockstats",
            "bytes that the guest read from its disks";
        BlockWrites = "block_writes", Count, Counter, "QMP query-blockstats",
            "write requests of the guest to its disks";
        BlockWriteBytes = "block_write_bytes", Bytes, Counter, "QMP query-blockstats",
            "bytes that the guest wrote to its disks";
        NetInPackets = "net_in_packets", Count, Counter, "PID/fdinfo, class/net",
            "packets that the guest received through its tap devices";
        NetInBytes = "net_in_bytes", Bytes, Counter, "PID/fdinfo, class/net",
            "bytes that the guest received through its tap devices";
        NetOutPackets = "net_out_packets", Count, Counter, "PID/fdinfo, class/net",
            "packets that the guest sent through its tap devices";
        NetOutBytes = "net_out_bytes", Bytes, Counter, "PID/fdinfo, class/net",
            "bytes that the guest sent through its tap devices";
        Low = "group_low_bytes", Bytes, Gauge, "cgroup memory.low",
            "memory that the cgroup keeps while other cgroups exceed their share";
        GroupSwap = "group_swap_bytes", Bytes, Gauge, "cgroup memory.swap.current",
            "memory of the cgroup that is swapped out, to any tier";
        GroupZswapped = "group_zswapped_bytes", Bytes, Gauge, "cgroup memory.stat zswapped",
            "memory of the cgroup in zswap, uncompressed";
        GroupZswapIn = "group_zswap_in_pages", Pages, Counter, "cgroup memory.stat zswpin",
            "pages of the cgroup loaded from zswap";
        GroupZswapOut = "group_zswap_out_pages", Pages, Counter, "cgroup memory.stat zswpout",
            "pages of the cgroup stored in zswap";
        GroupZswapBack = "group_zswap_writeback_pages", Pages, Counter, "cgroup memory.stat zswpwb",
            "pages of the cgroup moved from zswap to disk";
        GroupSwapIn = "group_swap_in_pages", Pages, Counter, "cgroup memory.stat pswpin",
            "pages of the cgroup read from swap devices";
        GroupSwapOut = "group_swap_out_pages", Pages, Counter, "cgroup memory.stat pswpout",
            "pages of the cgroup written to swap devices";
        GroupRefaultAnonymous = "group_refault_anonymous_pages", Pages, Counter,
            "cgroup memory.stat",
            "pages of the cgroup read back soon after the host had swapped them out";
        GroupRefaultFile = "group_refault_file_pages", Pages, Counter, "cgroup memory.stat",
            "cached pages of the cgroup's files read again soon after the host had dropped them";
        OtherBlockIo = "other_block_io_ns", Nanoseconds, Counter, "task/TID/stat 42",
            "time in which the process's other threads waited for block I/O; missing if the kernel \
             does not count it";
        OwnRun = "own_run_ns", Nanoseconds, Counter, "daemon, schedstat",
            "run time of all tasks in the guest, by its count, at the last report of its processes";
        RunThen = "vcpu_run_then_ns", Nanoseconds, Counter, "task/TID/schedstat",
            "run time of the virtual CPUs on the host, at the last report of the guest's processes";
        BalloonTime = "balloon_time_ns", Nanoseconds, Counter, "balloon last-update",
            "time of the balloon's statistics, since 1970, to the second";
        BalloonTotal = "balloon_total_bytes", Bytes, Gauge, "balloon stat-total-memory",
            "total memory of the guest, by the balloon's statistics";
        BalloonFree = "balloon_free_bytes", Bytes, Gauge, "balloon stat-free-memory",
            "memory that the guest does not use, by the balloon's statistics";
        BalloonAvailable = "balloon_available_bytes", Bytes, Gauge, "balloon stat-available-memory",
            "memory that the guest could hand out without swapping, by the balloon's statistics";
        BalloonCached = "balloon_cached_bytes", Bytes, Gauge, "balloon stat-disk-caches",
            "guest's cache of files, by the balloon's statistics";
        BalloonSwapIn = "balloon_swap_in_bytes", Bytes, Counter, "balloon stat-swap-in",
            "bytes that the guest read from its swap space, by the balloon's statistics";
        BalloonSwapOut = "balloon_swap_out_bytes", Bytes, Counter, "balloon stat-swap-out",
            "bytes that the guest wrote to its swap space, by the balloon's statistics";
        BalloonMajorFaults = "balloon_major_faults", Count, Counter, "balloon stat-major-faults",
            "page faults for which the guest had to read, by the balloon's statistics";
        OwnTime = "own_time_ns", Nanoseconds, Counter, "daemon, uptime",
            "time since the guest's boot, at the last report of its memory";
        OwnInactiveFile = "own_inactive_file_bytes", Bytes, Gauge, "daemon, meminfo",
            "Inactive(file) of the guest";
        OwnCpusPresent = "own_cpus_present", Count, Gauge, "daemon, status",
            "CPUs of the guest, online or not";
        OwnRulesTotal = "own_rules_total_bytes", Bytes, Gauge, "daemon, status",
            "MemTotal as the daemon's rules see it";
        OwnRulesFree = "own_rules_free_bytes", Bytes, Gauge, "daemon, status",
            "MemFree as the daemon's rules see it";
        OwnRulesAvailable = "own_rules_available_bytes", Bytes, Gauge, "daemon, status",
            "MemAvailable as the daemon's rules see it";
        OwnSettled = "own_settled", Count, Gauge, "daemon, status",
            "1 while nothing changes and the daemon evaluates no rules, else 0";
        OwnLoad5 = "own_load_5_permille", Permille, Gauge, "daemon, loadavg",
            "load average of the guest over 5 minutes";
        OwnLoad15 = "own_load_15_permille", Permille, Gauge, "daemon, loadavg",
            "load average of the guest over 15 minutes";
        OwnRootTotal = "own_root_total_bytes", Bytes, Gauge, "daemon, statvfs",
            "size of the guest's root file system";
        OwnRootAvailable = "own_root_available_bytes", Bytes, Gauge, "daemon, statvfs",
            "free space of the guest's root file system for all users";
        OwnDispatches = "own_dispatches", Count, Counter, "daemon, schedstat",
            "dispatches of tasks in the guest, reported once a minute";
        OwnContextSwitches = "own_context_switches", Count, Counter, "daemon, stat ctxt",
            "context switches in the guest, including switches to idle";
        OwnForks = "own_forks", Count, Counter, "daemon, stat processes",
            "tasks started in the guest";
        OwnInterrupts = "own_interrupts", Count, Counter, "daemon, stat intr",
            "interrupts in the guest";
        OwnSoftInterrupts = "own_soft_interrupts", Count, Counter, "daemon, stat softirq",
            "soft interrupts in the guest";
        OwnTimers = "own_timers", Count, Counter, "daemon, stat softirq",
            "soft interrupts for timers in the guest";
        OwnInterruptTime = "own_interrupt_ticks", Ticks, Counter, "daemon, stat",
            "ticks that the guest's CPUs spent in interrupts";
        OwnTasks = "own_tasks", Count, Gauge, "daemon, loadavg", "number of tasks in the guest";
        Private = "private_bytes", Bytes, Gauge, "PID/statm",
            "resident memory that only the guest's process uses";
        Together = "together_bytes", Bytes, Gauge, "PID/statm",
            "resident memory that the process may share: a template, programs";
        Hypervisor = "hypervisor_bytes", Bytes, Gauge, "PID/smaps, PID/statm",
            "part of the private memory that the hypervisor itself uses";
        Compressed = "compressed_bytes", Bytes, Gauge, "PID/status VmSwap, zram mm_stat, meminfo",
            "host memory that holds the process's swapped-out memory in compressed form, estimated \
             from the mean compression";
        Parked = "parked_ns", Nanoseconds, Counter, "QMP, libvirt, farm",
            "time in which the guest was stopped because it was parked";
    }
}
