//! Screen with an overview of the host, and its guests below.

use super::super::model::{HISTORY, Model};
use super::super::sample::{Sample, Seen};
use super::super::text::flowed;
use super::super::view::View;
use super::graph::{Graph, MARGIN};
use super::history::pane_min;
use super::room::{Line, Room, Tint, fill, name, size, size_of};
use super::{guests, memory};
use manager::control::KsmPhase;
use model::HostField as H;
use reports::{Scope, shown};

/// Screen heights from which each graph of the host has two lines, and four lines.
const TALL: usize = 34;
const TALLER: usize = 44;
/// Minimum number of lines for the table of guests: the head, one guest and its reason.
const TABLE_MIN: usize = 3;
/// Divisor of the host's memory. A difference in free memory up to this part is ignored, because
/// the compared values may come from two readings.
const NEAR_PART: u64 = 20;
/// Busy CPU time in percent from which the host counts as busy.
const BUSY_PERCENT: f64 = 90.0;
/// Share of time with tasks waiting for memory, in percent, from which the host is short of memory.
const WAITS_PERCENT: f64 = 10.0;
/// Maximum length of the sentence about a manager that changes nothing, in characters.
const WATCHING_MAX: usize = 400;

/// Returns the lines: CPU, memory, waits, tiers below memory, guests, and the busiest guests.
pub(super) fn lines(
    model: &Model,
    sample: &Sample,
    view: &View,
    guests: &[Seen<'_>],
    room: &Room<'_>,
) -> Vec<Line> {
    let mut lines = host(model, sample, room);
    let marked = guests.get(view.marked_line(guests));
    let kept = TABLE_MIN + if room.look.is_text { 0 } else { pane_min(marked, room) };
    lines.push(Line::default());
    if lines.len() + kept > room.height {
        lines.truncate(room.height.saturating_sub(kept));
    }
    let left = room.height.saturating_sub(lines.len());
    lines.extend(guests::lines(model, view, guests, left, room));
    lines
}

fn host(model: &Model, sample: &Sample, room: &Room<'_>) -> Vec<Line> {
    let host = |line| fill(line, Scope::Host, |id| sample.host(id));
    let is_over = |id, most| sample.host(id).is_some_and(|value| value >= most);
    let when = |is_so, tint| if is_so { tint } else { Tint::Usual };
    let mut lines: Vec<Line> = Vec::new();
    let mut push = |tint, line: String| {
        lines.extend(flowed(line, room.width).into_iter().map(|line| Line::new(line, tint)));
    };
    if let Some(watching) = &sample.ps.host.watching {
        push(Tint::Short, base::plain(watching, WATCHING_MAX));
    }
    push(
        when(is_over("busy_percent", BUSY_PERCENT), Tint::Short),
        host(
            "CPU      {busy_percent} %  of {cpus} CPUs   guests {virtual_percent} %   \
             stolen {steal_percent} %   wakes {wakes_per_s} /s",
        ),
    );
    let rows = graph_rows(room);
    busy(model, sample, rows, room).into_iter().for_each(|line| push(Tint::Runs, line));
    push(memory_tint(sample), memory_line(sample));
    memory::used(model, sample, rows, room).into_iter().for_each(|line| push(Tint::Runs, line));
    push(Tint::Usual, swap(sample));
    push(
        when(is_over("psi_memory_percent", WAITS_PERCENT), Tint::Short),
        host(
            "Waits    CPU {psi_cpu_percent} %   \
             memory {psi_memory_percent} %  full {psi_memory_full_percent} %   \
             I/O {psi_io_percent} %  full {psi_io_full_percent} %   stalls {stalls_per_s} /s",
        ),
    );
    let unless_driven = if sample.is_recorded() { "" } else { "scanner not managed" };
    let scanner = |phase: KsmPhase| format!("scanner {}", phase.name());
    let phase = sample.ps.ksm.phase.map_or_else(|| unless_driven.to_owned(), scanner);
    let ksm = host(
        "KSM      {ksm_saved_mib} MiB saved   {ksm_ratio} uses per page   {ksm_ms_per_min} ms/min",
    );
    push(Tint::Usual, format!("{ksm}   {phase}"));
    push(Tint::Usual, tiers(sample));
    push(Tint::Usual, inhabitants(sample));
    let own = host("pinhead  {manager_ms_per_min} ms/min   {manager_mib} MiB");
    let round = shown(sample.round_us.map(|us| us as f64 / 1000.0), 1);
    push(Tint::Usual, format!("{own}   sampling takes {round} ms"));
    lines
}

fn graph_rows(room: &Room<'_>) -> usize {
    match room.height {
        _ if room.look.is_text => 1,
        TALLER.. => 4,
        TALL.. => 2,
        _ => 1,
    }
}

fn busy(model: &Model, sample: &Sample, rows: usize, room: &Room<'_>) -> Vec<String> {
    let now = shown(sample.host("busy_percent"), 1);
    let values = model.busy.iter().copied().collect();
    let graph = Graph { label: "CPU %", now, values, top: 100.0 };
    graph.lines(rows, room.width.min(MARGIN + HISTORY), room.look)
}

/// Returns the line about memory, with the budget if there is one.
fn memory_line(sample: &Sample) -> String {
    let row = &sample.ps.host;
    // A recording does not contain the settings, so a zero means unknown.
    let known = |bytes: u64| size_of((!sample.is_recorded() || bytes > 0).then_some(bytes));
    let (set_point, reserve) = (known(row.set_point_bytes), known(row.reserve_bytes));
    let bound = sample.bound();
    let host = |line| fill(line, Scope::Host, |id| sample.host(id));
    let sizes = if bound.is_budget {
        format!(
            "budget {} MiB, {} free in it; {}",
            size(bound.all_mib),
            size(bound.free_mib),
            host("host {total_mib} MiB, {available_mib} available"),
        )
    } else if is_within_budget(sample) {
        // A recording contains the free part of the budget, but not the size of the budget.
        host("{spare_mib} free in the budget; host {total_mib} MiB, {available_mib} available")
    } else {
        host("{total_mib} MiB   available {available_mib}   free {free_mib}")
    };
    format!("Memory   {sizes}   set point {set_point}   reserve {reserve}")
}

/// Returns true if a recorded host had a budget: guests could use less memory than was available.
fn is_within_budget(sample: &Sample) -> bool {
    let sizes = [H::Spare, H::Available, H::Total].map(|field| sample.raw(field));
    let [Some(spare), Some(available), Some(total)] = sizes else { return false };
    sample.is_recorded() && spare.saturating_add(total / NEAR_PART) < available
}

/// Returns the colour of the memory line. The colour shows whether free memory is below the reserve
/// or the set point.
fn memory_tint(sample: &Sample) -> Tint {
    let row = &sample.ps.host;
    let free = sample.bound().free_mib.map(|mib| (mib * 1_048_576.0) as u64);
    match free {
        Some(free) if free < row.reserve_bytes => Tint::Bad,
        Some(free) if free < row.set_point_bytes.saturating_sub(row.hysteresis_bytes) => {
            Tint::Short
        }
        _ => Tint::Usual,
    }
}

fn swap(sample: &Sample) -> String {
    let used = sample.raw(H::SwapTotal).zip(sample.raw(H::SwapFree));
    let used = used.map(|(total, free)| total.saturating_sub(free));
    let rate = |value: Option<f64>| shown(value, 1);
    format!(
        "Swap     {} of {} MiB used   in {}   out {} pages/s   zswap {} pages/s",
        size_of(used),
        size_of(sample.raw(H::SwapTotal)),
        rate(sample.interval().host.a_second(H::SwapIn)),
        rate(sample.interval().host.a_second(H::SwapOut)),
        rate(sample.host("zswap_pages_per_s")),
    )
}

fn tiers(sample: &Sample) -> String {
    let each = sample.interval().tiers.iter().map(|(path, tier)| {
        let value = |id| sample.single.tier(tier, id);
        let ratio = value("compression_ratio").map_or(String::new(), |x| format!(" at {x:.1}"));
        let (used, whole) = (size(value("used_mib")), size(value("size_mib")));
        format!("{} {used}/{whole} MiB{ratio}", name(path, 16).trim_end())
    });
    let all: Vec<String> = each.collect();
    let text = if all.is_empty() { "none".to_owned() } else { all.join("   ") };
    format!("Tiers    {text}")
}

fn inhabitants(sample: &Sample) -> String {
    let rows = &sample.ps.guests;
    let count = |state: &str| rows.iter().filter(|row| sample.seen(row).state() == state).count();
    let (running, asleep) = (count("running"), count("asleep"));
    let parked = count("parked");
    let stand = if parked > 0 { format!("{parked} parked, ") } else { String::new() };
    let has: Option<u64> =
        rows.iter().filter_map(|row| row.actual_bytes).reduce(u64::saturating_add);
    let each = rows.iter().filter_map(|row| sample.seen(row).known(row.memory_bytes));
    let of: Option<u64> = each.reduce(u64::saturating_add);
    let all = |id| sample.single.all_guests(id);
    format!(
        "Guests   {}: {running} running, {asleep} asleep, {stand}{} other   have {} of {} MiB, \
         private {}",
        rows.len(),
        rows.len() - running - asleep - parked,
        size_of(has),
        size_of(of),
        size(all("private_mib").or_else(|| all("resident_mib"))),
    )
}
