//! Recorded fields of a process inside a guest, as reported by the daemon.

crate::field::fields! {
    /// A raw field of a process, or of all processes of one name.
    ProcessField {
        Count = "processes", Count, Gauge, "daemon, /proc", "processes of this name";
        User = "user_ns", Nanoseconds, Counter, "daemon, PID/stat", "CPU time in user mode";
        System = "system_ns", Nanoseconds, Counter, "daemon, PID/stat",
            "CPU time in the kernel";
        ChildUser = "child_user_ns", Nanoseconds, Counter, "daemon, PID/stat",
            "that of children that have ended, in user mode";
        ChildSystem = "child_system_ns", Nanoseconds, Counter, "daemon, PID/stat",
            "that of children that have ended, in the kernel";
        Dispatches = "dispatches", Count, Counter, "daemon, task/TID/schedstat",
            "times its threads were dispatched";
        Run = "run_ns", Nanoseconds, Counter, "daemon, task/TID/schedstat",
            "time its threads ran";
        Resident = "resident_bytes", Bytes, Gauge, "daemon, PID/stat", "its memory";
        MajorFaults = "major_faults", Count, Counter, "daemon, PID/stat",
            "faults that had to read";
        Threads = "threads", Count, Gauge, "daemon, PID/stat", "its threads";
    }
}
