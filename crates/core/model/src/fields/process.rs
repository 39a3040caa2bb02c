//! Recorded fields of a process inside a guest, as reported by the daemon.

crate::field::fields! {
    /// A raw field of a process, or of all processes of one name.
    ProcessField {
        Count = "processes", Count, Gauge, "daemon, /proc", "number of processes of this name";
        User = "user_ns", Nanoseconds, Counter, "daemon, PID/stat", "CPU time in user mode";
        System = "system_ns", Nanoseconds, Counter, "daemon, PID/stat",
            "CPU time in the kernel";
        ChildUser = "child_user_ns", Nanoseconds, Counter, "daemon, PID/stat",
            "CPU time of ended children in user mode";
        ChildSystem = "child_system_ns", Nanoseconds, Counter, "daemon, PID/stat",
            "CPU time of ended children in the kernel";
        Dispatches = "dispatches", Count, Counter, "daemon, task/TID/schedstat",
            "dispatches of the process's threads";
        Run = "run_ns", Nanoseconds, Counter, "daemon, task/TID/schedstat",
            "run time of the process's threads";
        Resident = "resident_bytes", Bytes, Gauge, "daemon, PID/stat",
            "resident memory of the process";
        MajorFaults = "major_faults", Count, Counter, "daemon, PID/stat",
            "page faults that had to read from a disk";
        Threads = "threads", Count, Gauge, "daemon, PID/stat", "number of threads";
    }
}
