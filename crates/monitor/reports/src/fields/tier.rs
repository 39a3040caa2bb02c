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
        "size_mib", "Size|MiB", Mib 0, [tier Size], "its size", "mean";
        "used_mib", "Used|MiB", Mib 0, [tier Used], "what of it is in use", "mean";
        "in_pages_per_s", "In|pages/s", PagesPerS 1, [tier ReadBytes], "what came back from it",
            "bytes read in pages, a second";
        "out_pages_per_s", "Out|pages/s", PagesPerS 1, [tier WriteBytes], "what went to it",
            "bytes written in pages, a second";
        "page_age_s", "Age|s", Seconds 0, [tier Used, tier WriteBytes],
            "how long a page stays", "what is used over what went to it a second",
            |f| over(f.t(T::Used)?, f.t_s(T::WriteBytes)?);
        "read_ms", "Read|ms", Ms 2, [tier ReadTime, tier Reads], "how long a read took",
            "time over requests", |f| service_ms(f, T::ReadTime, T::Reads);
        "write_ms", "Write|ms", Ms 2, [tier WriteTime, tier Writes], "how long a write took",
            "time over requests", |f| service_ms(f, T::WriteTime, T::Writes);
        "cluster_kib", "Cluster|KiB", Kib 1,
            [tier ReadBytes, tier WriteBytes, tier Reads, tier Writes],
            "size of a request", "bytes over requests, both ways", |f| {
                let bytes = f.t(T::ReadBytes)? + f.t(T::WriteBytes)?;
                over(bytes / 1024.0, f.t(T::Reads)? + f.t(T::Writes)?)
            };
        "compression_ratio", "Ratio", Ratio 2, [tier Stored, tier Compressed],
            "how much compression saves", "what is stored over what it takes, compressed",
            |f| over(f.t(T::Stored)?, f.t(T::Compressed)?);
        "stored_mib", "Stored|MiB", Mib 0, [tier Stored], "what is in it, uncompressed", "mean";
        "compressed_mib", "Compr|MiB", Mib 0, [tier Compressed], "the same, compressed", "mean";
        "resident_mib", "Takes|MiB", Mib 0, [tier Resident], "the memory that it takes", "mean";
        "backing_mib", "On disk|MiB", Mib 0, [tier Backing], "what it has written to its disk",
            "mean";
        "reads_per_s", "Reads|/s", PerS 1, [tier Reads], "requests that read", "a second";
        "writes_per_s", "Writes|/s", PerS 1, [tier Writes], "requests that wrote", "a second";
    }
}
