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

/// Returns the percentage of bursts with the given durations.
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

/// Returns a network counter of the tap devices, or the daemon's counter if there is no tap device.
fn network(facts: &Facts<'_>, tap: G, own: G) -> Option<f64> {
    facts.g_s(tap).or_else(|| facts.g_s(own))
}

derived! {
    /// Fields of a guest, measured from the host.
    GUEST, Guest {
        "bursts_per_min", "Bursts|/min", PerMin 0,
            [guest Bursts50, guest Bursts200, guest Bursts1000, guest BurstsLong],
            "bursts of work of the guest's virtual CPUs, including waits for a CPU",
            "estimated from the duration and number of runs in each second; work over several \
             seconds is one burst; per minute", |f| f.g_per_min(bursts(f)?);
        "burst_short_percent", "Below|50 ms %", Percent 1,
            [guest Bursts50, guest Bursts200, guest Bursts1000, guest BurstsLong],
            "bursts shorter than 0.05 s", "share of all bursts",
            |f| burst_percent(f, &[G::Bursts50]);
        "burst_middle_percent", "50 to|200 ms %", Percent 1,
            [guest Bursts50, guest Bursts200, guest Bursts1000, guest BurstsLong],
            "bursts from 0.05 s to 0.2 s", "share of all bursts",
            |f| burst_percent(f, &[G::Bursts200]);
        "burst_long_percent", "0.2 to|1 s %", Percent 1,
            [guest Bursts50, guest Bursts200, guest Bursts1000, guest BurstsLong],
            "bursts from 0.2 s to 1 s", "share of all bursts",
            |f| burst_percent(f, &[G::Bursts1000]);
        "burst_longest_percent", "1 s and|longer %", Percent 1,
            [guest Bursts50, guest Bursts200, guest Bursts1000, guest BurstsLong],
            "bursts of 1 s and longer", "share of all bursts",
            |f| burst_percent(f, &[G::BurstsLong]);
        "burst_trivial_percent", "Below|200 ms %", Percent 1,
            [guest Bursts50, guest Bursts200, guest Bursts1000, guest BurstsLong],
            "bursts shorter than 0.2 s; z/VM monitors call them trivial transactions",
            "share of all bursts", |f| burst_percent(f, &[G::Bursts50, G::Bursts200]);
        "low_mib", "Kept|MiB", Mib 0, [guest Low],
            "memory that the guest's cgroup keeps while other cgroups exceed their share",
            "memory.low, mean";
        "zswapped_mib", "zswap|MiB", Mib 0, [guest GroupZswapped],
            "memory of the guest in zswap, uncompressed", "mean";
        "on_disk_mib", "Disk|MiB", Mib 0, [guest GroupSwap, guest GroupZswapped],
            "memory of the guest in slots of swap devices, without zswap",
            "swapped-out memory less memory in zswap, mean", |f| {
                let zswapped = f.g(G::GroupZswapped).unwrap_or(0.0);
                Some((f.g(G::GroupSwap)? - zswapped).max(0.0) / MIB)
            };
        "zswap_in_pages_per_s", "zswap in|pages/s", PagesPerS 1, [guest GroupZswapIn],
            "pages of the guest loaded from zswap", "per second";
        "zswap_out_pages_per_s", "zswap out|pages/s", PagesPerS 1, [guest GroupZswapOut],
            "pages of the guest stored in zswap", "per second";
        "disk_in_pages_per_s", "Disk in|pages/s", PagesPerS 1, [guest GroupSwapIn],
            "pages of the guest read from swap devices", "per second";
        "disk_out_pages_per_s", "Disk out|pages/s", PagesPerS 1, [guest GroupSwapOut],
            "pages of the guest written to swap devices", "per second";
        "migrated_pages_per_s", "Migr|pages/s", PagesPerS 1, [guest GroupZswapBack],
            "pages of the guest moved from zswap to disk", "per second";
        "host_refault_anonymous_pages_per_s", "Host re|anon/s", PagesPerS 1,
            [guest GroupRefaultAnonymous],
            "pages of the guest read back soon after the host had swapped them out", "per second";
        "host_refault_file_pages_per_s", "Host re|file/s", PagesPerS 1, [guest GroupRefaultFile],
            "cached pages of the guest's files read again soon after the host had dropped them",
            "per second";
        "images_mib", "Images|MiB", Mib 0, [guest Images], "disk space of the guest's image files",
            "mean";
        "image_cached_mib", "Img cache|MiB", Mib 0, [guest ImagesCached],
            "part of the guest's image files in the host's cache", "mean";
        "cache_hit_percent", "Cache|hit %", Percent 1, [guest BlockReadBytes, guest ReadBytes],
            "share of the guest's disk reads that the host's cache served",
            "bytes read less bytes fetched from storage, as a share of the bytes read",
            cache_hit_percent;
        "block_reads_per_s", "Disk|reads/s", PerS 1, [guest BlockReads],
            "read requests of the guest to its disks", "per second";
        "block_writes_per_s", "Disk|writes/s", PerS 1, [guest BlockWrites],
            "write requests of the guest to its disks", "per second";
        "block_read_kib_per_s", "Disk read|KiB/s", KibPerS 1, [guest BlockReadBytes],
            "data that the guest read from its disks", "per second";
        "block_write_kib_per_s", "Disk write|KiB/s", KibPerS 1, [guest BlockWriteBytes],
            "data that the guest wrote to its disks", "per second";
        "net_in_per_s", "Net in|packets/s", PerS 1, [guest NetInPackets, guest OwnReceivedPackets],
            "packets that the guest received",
            "counted at its tap devices, else by its daemon; per second",
            |f| network(f, G::NetInPackets, G::OwnReceivedPackets);
        "net_out_per_s", "Net out|packets/s", PerS 1, [guest NetOutPackets, guest OwnSentPackets],
            "packets that the guest sent",
            "counted at its tap devices, else by its daemon; per second",
            |f| network(f, G::NetOutPackets, G::OwnSentPackets);
        "net_in_kib_per_s", "Net in|KiB/s", KibPerS 1, [guest NetInBytes, guest OwnReceived],
            "data that the guest received by network",
            "counted at its tap devices, else by its daemon; per second",
            |f| Some(network(f, G::NetInBytes, G::OwnReceived)? / 1024.0);
        "net_out_kib_per_s", "Net out|KiB/s", KibPerS 1, [guest NetOutBytes, guest OwnSent],
            "data that the guest sent by network",
            "counted at its tap devices, else by its daemon; per second",
            |f| Some(network(f, G::NetOutBytes, G::OwnSent)? / 1024.0);
    }
}

#[cfg(test)]
#[path = "outside/tests.rs"]
mod tests;
