//! What is recorded of a guest.

super::fields! {
    /// A raw field of a guest: as the host sees it first, as its daemon tells it last.
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
        Target = "target_bytes", Bytes, Gauge, "manager", "the memory that it was told to have";
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
            "processes killed for want of memory";
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
    }
}
