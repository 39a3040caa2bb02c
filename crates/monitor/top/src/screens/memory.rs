//! Screen of the host's memory by use, and of the tiers below it.

use super::super::model::{HISTORY, Model};
use super::super::sample::Sample;
use super::super::text::flowed;
use super::graph::{Graph, MARGIN, end};
use super::room::{Line, Room, Tint, fill, name, size};
use reports::{Scope, shown};

/// Width from which the parts stand in two columns.
const BESIDE: usize = 78;
/// Widths of a tier's name and of its other cells.
const TIER: usize = 16;
const CELL: usize = 7;
/// Shortest length of a bar that stands for all of the memory.
const BAR: usize = 14;
/// Width of a part without its bar, and the distance of the columns.
const PART: usize = 24;
const GAP: usize = 4;

/// Uses of memory. Their sum is the total memory.
const PARTS: [(&str, &str); 16] = [
    ("guests", "guests_mib"),
    ("VMMs", "hypervisors_mib"),
    ("shared", "together_mib"),
    ("pinhead", "manager_mib"),
    ("processes", "processes_mib"),
    ("cache", "cache_mib"),
    ("shmem", "shared_mib"),
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

/// Returns the parts and the tiers below memory. The sum of the parts is the total. A graph fills
/// the remaining lines.
pub(super) fn lines(model: &Model, sample: &Sample, room: &Room<'_>) -> Vec<Line> {
    let total = sample.host("total_mib");
    let mut lines = vec![format!("MEMORY OF THE HOST  {} MiB", size(total))];
    let half = PARTS.len() / if room.width >= BESIDE { 2 } else { 1 };
    let columns = PARTS.len() / half;
    let bar = (room.width.saturating_sub(GAP) / columns).saturating_sub(PART).max(BAR);
    let text = |(name, id): &(&str, &str)| part(name, sample.host(id), total, bar, room);
    // The left column shows the first half of the parts.
    for (index, left) in PARTS.iter().take(half).enumerate() {
        let right = PARTS.get(index + half).map(text).unwrap_or_default();
        lines.push(format!("  {}  {right}", text(left)));
    }
    lines.push(String::new());
    let reclaim = [
        "RECLAIM  swap {swap_pages_per_s}  zswap {zswap_pages_per_s}  \
         kswapd {kswapd_pages_per_s} pages/s   stalls {stalls_per_s} /s   age {turn_s} s",
        "REFAULT  file {refault_file_pages_per_s}  \
         anonymous {refault_anonymous_pages_per_s} pages/s   \
         major faults {major_faults_per_s} /s   OOM kills {oom_kills}",
        "KSM      {ksm_saved_mib} MiB saved   {ksm_ratio} uses per page   \
         {ksm_ms_per_min} ms/min",
    ];
    let filled = reclaim.map(|line| fill(line, Scope::Host, |id| sample.host(id)));
    lines.extend(filled.into_iter().flat_map(|line| flowed(line, room.width)));
    lines.push(String::new());
    lines.extend(tiers(sample, room));
    let left = room.height.saturating_sub(lines.len() + 1);
    let mut lines: Vec<Line> = lines.into_iter().map(Line::from).collect();
    if left > 0 && !room.look.is_text {
        lines.push(Line::default());
        let graph = used(model, sample, left, room);
        lines.extend(graph.into_iter().map(|line| Line::new(line, Tint::Runs)));
    }
    lines
}

/// Returns the graph of the used memory: of the budget if there is one, else of the host.
pub(super) fn used(model: &Model, sample: &Sample, rows: usize, room: &Room<'_>) -> Vec<String> {
    let bound = sample.bound();
    let values: Vec<_> = model.used.iter().copied().collect();
    let top = end(&values, 1.0, bound.all_mib);
    let graph = Graph { label: "USED MiB", now: size(bound.used_mib), values, top };
    graph.lines(rows, room.width.min(MARGIN + HISTORY), room.look)
}

fn part(name: &str, mib: Option<f64>, total: Option<f64>, most: usize, room: &Room<'_>) -> String {
    let total = total.filter(|total| *total > 0.0);
    let share = mib.zip(total).map(|(mib, total)| mib / total);
    let length = share.map_or(0, |share| (share.clamp(0.0, 1.0) * most as f64).round() as usize);
    let bar = if room.look.is_ascii { "#" } else { "█" }.repeat(length);
    let percent = shown(share.map(|share| share * 100.0), 1);
    format!("{name:<9} {:>6} {percent:>5}% {bar:<most$}", size(mib))
}

/// Returns the tiers, with as many columns as fit.
fn tiers(sample: &Sample, room: &Room<'_>) -> Vec<String> {
    let fit = room.width.saturating_sub(TIER) / CELL;
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
    let cells = |texts: Vec<String>| {
        texts.iter().take(fit).map(|text| format!("{text:>CELL$}")).collect::<String>()
    };
    let head = cells(heads.map(str::to_owned).to_vec());
    let mut lines = vec![format!("{:<TIER$}{head}", "TIER")];
    for (path, tier) in &sample.interval().tiers {
        let text = |(id, decimals): &(&str, u8)| shown(sample.single.tier(tier, id), *decimals);
        lines.push(format!("{}{}", name(path, TIER), cells(ids.iter().map(text).collect())));
    }
    if sample.interval().tiers.is_empty() {
        lines.push("there are no tiers below memory: no swap, no zram, no zswap".to_owned());
    }
    lines
}
