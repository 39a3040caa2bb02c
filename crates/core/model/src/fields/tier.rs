//! Recorded fields of a tier of memory below RAM: a swap device, zram, zswap.

crate::field::fields! {
    /// A raw field of a tier.
    TierField {
        Size = "size_bytes", Bytes, Gauge, "swaps", "size of the tier";
        Used = "used_bytes", Bytes, Gauge, "swaps", "used part of the tier";
        Priority = "priority", Count, Gauge, "swaps",
            "priority: a tier of higher priority is used first; 32768 stands for 0";
        Stored = "stored_bytes", Bytes, Gauge, "zram mm_stat",
            "data in the tier, uncompressed size";
        Compressed = "compressed_bytes", Bytes, Gauge, "zram mm_stat",
            "data in the tier, compressed size";
        Resident = "resident_bytes", Bytes, Gauge, "zram mm_stat",
            "host memory that the tier occupies";
        Backing = "backing_bytes", Bytes, Gauge, "zram bd_stat",
            "data that the tier has written to its backing disk";
        Reads = "reads", Count, Counter, "block stat", "read requests";
        ReadBytes = "read_bytes", Bytes, Counter, "block stat", "bytes read";
        ReadTime = "read_time_ns", Nanoseconds, Counter, "block stat",
            "total time of the read requests";
        Writes = "writes", Count, Counter, "block stat", "write requests";
        WriteBytes = "write_bytes", Bytes, Counter, "block stat", "bytes written";
        WriteTime = "write_time_ns", Nanoseconds, Counter, "block stat",
            "total time of the write requests";
    }
}
