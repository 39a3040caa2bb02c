//! Fields of a guest's bursts, memory by tier, disks and network, derived from the host's counters.

use super::derived::derived;
use crate::facts::{Facts, MIB};
use crate::number::over;
use model::GuestField as G;

/// Bursts by duration, shortest first.
const BURSTS: [G; 4] = [G::Bursts50, G::Bursts200, G::Bursts1000, G::BurstsLong];

fn bursts(facts: &Facts<'_>) -> Option<f64> {
    BURSTS.iter().map(|field| facts.g(*field)).sum()
}

/// Returns the percentage of bursts that have one of some durations.
fn burst_percent(facts: &Facts<'_>, kinds: &[G]) -> Option<f64> {
    let some: Option<f64> = kinds.iter().map(|field| facts.g(*field)).sum();
    over(some? * 100.0, bursts(facts)?)
}

/// Returns the percentage of the guest's reads served without a fetch from the disk. Read-ahead may
/// fetch more than the guest reads.
pub(super) fn cache_hit_percent(facts: &Facts<'_>) -> Option<f64> {
    let (asked, fetched) = (facts.g(G::BlockReadBytes)?, facts.g(G::ReadBytes)?);
    over((asked - fetched).max(0.0) * 100.0, asked)
}

/// Returns a network counter of the tap devices, or the daemon's if there is no tap device.
fn network(facts: &Facts<'_>, tap: G, own: G) -> Option<f64> {
    facts.g_s(tap).or_else(|| facts.g_s(own))
}

derived! {
    /// Fields of a guest, measured from the host.
    GUEST, Guest {
        "bursts_per_min", "Bursts|/min", PerMin 0,
            [guest Bursts50, guest Bursts200, guest Bursts1000, guest BurstsLong],
            "stretches of work of its virtual CPUs, waits for a CPU included",
            "by how long and how often each ran in each second; one that works on for seconds is \
             one; a minute", |f| f.g_per_min(bursts(f)?);
        "burst_short_percent", "Below|50 ms %", Percent 1,
            [guest Bursts50, guest Bursts200, guest Bursts1000, guest BurstsLong],
            "bursts that took less than 0.05 s", "of all bursts",
            |f| burst_percent(f, &[G::Bursts50]);
        "burst_middle_percent", "50 to|200 ms %", Percent 1,
            [guest Bursts50, guest Bursts200, guest Bursts1000, guest BurstsLong],
            "those from 0.05 s to 0.2 s", "of all bursts",
            |f| burst_percent(f, &[G::Bursts200]);
        "burst_long_percent", "0.2 to|1 s %", Percent 1,
            [guest Bursts50, guest Bursts200, guest Bursts1000, guest BurstsLong],
            "those from 0.2 s to 1 s", "of all bursts", |f| burst_percent(f, &[G::Bursts1000]);
        "burst_longest_percent", "1 s and|longer %", Percent 1,
            [guest Bursts50, guest Bursts200, guest Bursts1000, guest BurstsLong],
            "those of 1 s and longer", "of all bursts", |f| burst_percent(f, &[G::BurstsLong]);
        "burst_trivial_percent", "Below|200 ms %", Percent 1,
            [guest Bursts50, guest Bursts200, guest Bursts1000, guest BurstsLong],
            "bursts that took less than 0.2 s: the trivial transactions of the original",
            "of all bursts", |f| burst_percent(f, &[G::Bursts50, G::Bursts200]);
        "low_mib", "Kept|MiB", Mib 0, [guest Low],
            "what its cgroup keeps while others have more than their share", "mean";
        "zswapped_mib", "zswap|MiB", Mib 0, [guest GroupZswapped],
            "what of it is in zswap, uncompressed", "mean";
        "on_disk_mib", "Disk|MiB", Mib 0, [guest GroupSwap, guest GroupZswapped],
            "what of it takes slots of swap devices and is not in zswap",
            "swapped out less what is in zswap, mean", |f| {
                let zswapped = f.g(G::GroupZswapped).unwrap_or(0.0);
                Some((f.g(G::GroupSwap)? - zswapped).max(0.0) / MIB)
            };
        "zswap_in_pages_per_s", "zswap in|pages/s", PagesPerS 1, [guest GroupZswapIn],
            "its pages that came back from zswap", "a second";
        "zswap_out_pages_per_s", "zswap out|pages/s", PagesPerS 1, [guest GroupZswapOut],
            "its pages that went to zswap", "a second";
        "disk_in_pages_per_s", "Disk in|pages/s", PagesPerS 1, [guest GroupSwapIn],
            "its pages that were read from swap devices", "a second";
        "disk_out_pages_per_s", "Disk out|pages/s", PagesPerS 1, [guest GroupSwapOut],
            "its pages that were written to swap devices", "a second";
        "migrated_pages_per_s", "Migr|pages/s", PagesPerS 1, [guest GroupZswapBack],
            "its pages that were moved from zswap to disk", "a second";
        "host_refault_anonymous_pages_per_s", "Host re|anon/s", PagesPerS 1,
            [guest GroupRefaultAnonymous],
            "its memory, needed again soon after the host swapped it out", "a second";
        "host_refault_file_pages_per_s", "Host re|file/s", PagesPerS 1, [guest GroupRefaultFile],
            "cache of its files, needed again soon after the host dropped it", "a second";
        "images_mib", "Images|MiB", Mib 0, [guest Images],
            "what its image files take on the disk", "mean";
        "image_cached_mib", "Img cache|MiB", Mib 0, [guest ImagesCached],
            "what of them is in the host's cache", "mean";
        "cache_hit_percent", "Cache|hit %", Percent 1, [guest BlockReadBytes, guest ReadBytes],
            "what it read from its disks that the host had in its cache",
            "read less what was fetched from storage, of what was read", cache_hit_percent;
        "block_reads_per_s", "Disk|reads/s", PerS 1, [guest BlockReads],
            "requests of it that read from its disks", "a second";
        "block_writes_per_s", "Disk|writes/s", PerS 1, [guest BlockWrites],
            "requests of it that wrote to them", "a second";
        "block_read_kib_per_s", "Disk read|KiB/s", KibPerS 1, [guest BlockReadBytes],
            "what it read from them", "a second";
        "block_write_kib_per_s", "Disk write|KiB/s", KibPerS 1, [guest BlockWriteBytes],
            "what it wrote to them", "a second";
        "net_in_per_s", "Net in|packets/s", PerS 1, [guest NetInPackets, guest OwnReceivedPackets],
            "packets that it got", "through its tap devices, or as its daemon tells; a second",
            |f| network(f, G::NetInPackets, G::OwnReceivedPackets);
        "net_out_per_s", "Net out|packets/s", PerS 1, [guest NetOutPackets, guest OwnSentPackets],
            "packets that it sent", "through its tap devices, or as its daemon tells; a second",
            |f| network(f, G::NetOutPackets, G::OwnSentPackets);
        "net_in_kib_per_s", "Net in|KiB/s", KibPerS 1, [guest NetInBytes, guest OwnReceived],
            "what it got", "through its tap devices, or as its daemon tells; a second",
            |f| Some(network(f, G::NetInBytes, G::OwnReceived)? / 1024.0);
        "net_out_kib_per_s", "Net out|KiB/s", KibPerS 1, [guest NetOutBytes, guest OwnSent],
            "what it sent", "through its tap devices, or as its daemon tells; a second",
            |f| Some(network(f, G::NetOutBytes, G::OwnSent)? / 1024.0);
    }
}

#[cfg(test)]
#[path = "outside/tests.rs"]
mod tests;
