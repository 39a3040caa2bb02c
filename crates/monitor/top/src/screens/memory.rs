//! Screen of the host's memory by use, and of the tiers below it.

use super::super::sample::Sample;
use super::room::{Room, fill, name, size};
use reports::{Scope, shown};

/// Length of the bar for a part that has all of the memory.
const BAR: usize = 14;

/// Uses of memory. Their sum is the total memory.
const PARTS: [(&str, &str); 16] = [
    ("guests", "guests_mib"),
    ("VMMs", "hypervisors_mib"),
    ("together", "together_mib"),
    ("pinhead", "manager_mib"),
    ("processes", "processes_mib"),
    ("cache", "cache_mib"),
    ("shared", "shared_mib"),
    ("buffers", "buffers_mib"),
    ("slab", "slab_mib"),
    ("tables", "tables_mib"),
    ("kernel", "kernel_mib"),
    ("zswap", "zswap_mib"),
    ("zram", "zram_mib"),
    ("huge", "huge_mib"),
    ("free", "free_mib"),
    ("other", "other_mib"),
];

/// Returns the parts, which sum to the total, and then the tiers.
pub(super) fn lines(sample: &Sample, room: &Room<'_>) -> Vec<String> {
    let total = sample.host("total_mib");
    let mut lines = vec![format!("MEMORY OF THE HOST  {} MiB", size(total))];
    // The list has two columns, with the first half on the left.
    let (left, right) = PARTS.split_at(PARTS.len() / 2);
    for (left, right) in left.iter().zip(right) {
        let parts = [left, right].map(|(name, id)| part(name, sample.host(id), total, room));
        lines.push(format!("  {}  {}", parts[0], parts[1]));
    }
    lines.push(String::new());
    let reclaim = [
        "RECLAIM  swap {swap_pages_per_s}  zswap {zswap_pages_per_s}  \
         kswapd {kswapd_pages_per_s} pages/s   stalls {stalls_per_s} /s   age {turn_s} s",
        "REFAULT  file {refault_file_pages_per_s}  \
         anonymous {refault_anonymous_pages_per_s} pages/s   \
         major faults {major_faults_per_s} /s   OOM kills {oom_kills}",
        "KSM      {ksm_saved_mib} MiB saved   {ksm_ratio} share a page   \
         {ksm_ms_per_min} ms/min",
    ];
    lines.extend(reclaim.map(|line| fill(line, Scope::Host, |id| sample.host(id))));
    lines.push(String::new());
    lines.extend(tiers(sample));
    lines
}

fn part(name: &str, mib: Option<f64>, total: Option<f64>, room: &Room<'_>) -> String {
    let total = total.filter(|total| *total > 0.0);
    let share = mib.zip(total).map(|(mib, total)| mib / total);
    let length = share.map_or(0, |share| (share.clamp(0.0, 1.0) * BAR as f64).round() as usize);
    let bar = if room.look.is_ascii { "#" } else { "█" }.repeat(length);
    let percent = shown(share.map(|share| share * 100.0), 1);
    format!("{name:<9} {:>6} {percent:>5}% {bar:<BAR$}", size(mib))
}

fn tiers(sample: &Sample) -> Vec<String> {
    let heads = ["SIZE", "USED", "STORED", "TAKES", "RATIO", "IN/s", "OUT/s", "READms", "WRTms"];
    let ids = [
        ("size_mib", 0),
        ("used_mib", 0),
        ("stored_mib", 0),
        ("resident_mib", 0),
        ("compression_ratio", 2),
        ("in_pages_per_s", 1),
        ("out_pages_per_s", 1),
        ("read_ms", 2),
        ("write_ms", 2),
    ];
    let cells =
        |texts: Vec<String>| texts.iter().map(|text| format!(" {text:>6}")).collect::<String>();
    let head = cells(heads.map(str::to_owned).to_vec());
    let mut lines = vec![format!("{:<16}{head}", "TIER")];
    for (path, tier) in &sample.interval().tiers {
        let text = |(id, decimals): &(&str, u8)| shown(sample.tier(tier, id), *decimals);
        lines.push(format!("{}{}", name(path, 16), cells(ids.iter().map(text).collect())));
    }
    if sample.interval().tiers.is_empty() {
        lines.push("there is nothing below memory: no swap, no zram, no zswap".to_owned());
    }
    lines
}
