//! Recorded fields of a tier of memory below RAM: a swap device, zram, zswap.

crate::field::fields! {
    /// A raw field of a tier.
    TierField {
        Size = "size_bytes", Bytes, Gauge, "swaps", "its size";
        Used = "used_bytes", Bytes, Gauge, "swaps", "what of it is in use";
        Priority = "priority", Count, Gauge, "swaps",
            "it is used before those with less; 32768 stands for 0";
        Stored = "stored_bytes", Bytes, Gauge, "zram mm_stat", "what is in it, uncompressed";
        Compressed = "compressed_bytes", Bytes, Gauge, "zram mm_stat", "the same, compressed";
        Resident = "resident_bytes", Bytes, Gauge, "zram mm_stat", "the memory that it takes";
        Backing = "backing_bytes", Bytes, Gauge, "zram bd_stat",
            "what it has written to its disk";
        Reads = "reads", Count, Counter, "block stat", "requests that read";
        ReadBytes = "read_bytes", Bytes, Counter, "block stat", "what was read";
        ReadTime = "read_time_ns", Nanoseconds, Counter, "block stat",
            "how long the requests took";
        Writes = "writes", Count, Counter, "block stat", "requests that wrote";
        WriteBytes = "write_bytes", Bytes, Counter, "block stat", "what was written";
        WriteTime = "write_time_ns", Nanoseconds, Counter, "block stat",
            "how long the requests took";
    }
}
