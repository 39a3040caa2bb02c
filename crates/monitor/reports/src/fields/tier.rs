//! Fields derived for a tier of memory below RAM.

use super::derived::derived;
use crate::facts::Facts;
use crate::number::over;
use model::TierField as T;

/// Returns the mean time per request in milliseconds, from nanoseconds and a number of requests.
fn service_ms(facts: &Facts<'_>, time: T, count: T) -> Option<f64> {
    over(facts.t(time)? / 1e6, facts.t(count)?)
}

derived! {
    /// Fields of a tier.
    TIER, Tier {
        "size_mib", "Size|MiB", Mib 0, [tier Size], "size of the tier", "mean";
        "used_mib", "Used|MiB", Mib 0, [tier Used], "used part of the tier", "mean";
        "in_pages_per_s", "In|pages/s", PagesPerS 1, [tier ReadBytes],
            "pages read back from the tier", "bytes read, in pages per second";
        "out_pages_per_s", "Out|pages/s", PagesPerS 1, [tier WriteBytes],
            "pages written to the tier", "bytes written, in pages per second";
        "page_age_s", "Age|s", Seconds 0, [tier Used, tier WriteBytes],
            "estimated time that a page stays in the tier",
            "used size divided by the bytes written per second",
            |f| over(f.t(T::Used)?, f.tier.a_second(T::WriteBytes)?);
        "read_ms", "Read|ms", Ms 2, [tier ReadTime, tier Reads], "mean duration of a read request",
            "time of read requests divided by their number",
            |f| service_ms(f, T::ReadTime, T::Reads);
        "write_ms", "Write|ms", Ms 2, [tier WriteTime, tier Writes],
            "mean duration of a write request", "time of write requests divided by their number",
            |f| service_ms(f, T::WriteTime, T::Writes);
        "cluster_kib", "Cluster|KiB", Kib 1,
            [tier ReadBytes, tier WriteBytes, tier Reads, tier Writes], "mean size of a request",
            "bytes divided by requests, reads and writes together", |f| {
                let bytes = f.t(T::ReadBytes)? + f.t(T::WriteBytes)?;
                over(bytes / 1024.0, f.t(T::Reads)? + f.t(T::Writes)?)
            };
        "compression_ratio", "Ratio", Ratio 2, [tier Stored, tier Compressed], "compression ratio",
            "stored size divided by compressed size",
            |f| over(f.t(T::Stored)?, f.t(T::Compressed)?);
        "stored_mib", "Stored|MiB", Mib 0, [tier Stored], "data in the tier, uncompressed size",
            "mean";
        "compressed_mib", "Compr|MiB", Mib 0, [tier Compressed],
            "data in the tier, compressed size", "mean";
        "resident_mib", "Takes|MiB", Mib 0, [tier Resident], "host memory that the tier occupies",
            "mean";
        "backing_mib", "On disk|MiB", Mib 0, [tier Backing],
            "data that the tier has written to its backing disk", "mean";
        "reads_per_s", "Reads|/s", PerS 1, [tier Reads], "read requests", "per second";
        "writes_per_s", "Writes|/s", PerS 1, [tier Writes], "write requests", "per second";
    }
}
