//! Screen with an overview of the host.

use super::super::model::{HISTORY, Model};
use super::super::sample::Sample;
use super::super::view::{Shown, View};
use super::guests;
use super::room::{Room, bars, fill, name, size, size_of};
use manager::control::KsmPhase;
use reports::{Scope, shown};

/// Returns the lines: CPU, memory, waits, tiers below memory, guests, and the busiest guests.
pub(super) fn lines(model: &Model, sample: &Sample, room: &Room<'_>) -> Vec<String> {
    let host = |line| fill(line, Scope::Host, |id| sample.host(id));
    let row = &sample.ps.host;
    // A recording does not contain the settings, so a zero means unknown.
    let known = |bytes: u64| (!sample.is_recorded() || bytes > 0).then_some(bytes);
    let mut lines = vec![
        host(
            "CPU      {busy_percent} %  of {cpus} CPUs   guests {virtual_percent} %   \
             stolen from us {steal_percent} %   wakes {wakes_per_s} /s",
        ),
        format!("         {:>HISTORY$}", bars(model.busy.iter().copied(), 100.0, room.look)),
        format!(
            "{}   wanted {}   reserve {}",
            host("Memory   {total_mib} MiB   available {available_mib}   free {free_mib}"),
            size_of(known(row.set_point_bytes)),
            size_of(known(row.reserve_bytes)),
        ),
        format!(
            "         {:>HISTORY$}",
            bars(model.free.iter().copied(), sample.host("total_mib").unwrap_or(0.0), room.look)
        ),
    ];
    lines.push(swap(sample));
    lines.push(host(
        "Waits    CPU {psi_cpu_percent} %   \
         memory {psi_memory_percent} %  full {psi_memory_full_percent} %   \
         I/O {psi_io_percent} %  full {psi_io_full_percent} %   stalls {stalls_per_s} /s",
    ));
    let unless_driven = if sample.is_recorded() { "" } else { "left as it is" };
    lines.push(format!(
        "{}   {}",
        host(
            "KSM      {ksm_saved_mib} MiB saved   {ksm_ratio} share a page   \
             {ksm_ms_per_min} ms/min"
        ),
        name(sample.ps.ksm.phase.map_or(unless_driven, KsmPhase::name), 20),
    ));
    lines.push(tiers(sample));
    lines.push(inhabitants(sample));
    lines.push(format!(
        "{}   a look takes {} ms",
        host("pinhead  {manager_ms_per_min} ms/min   {manager_mib} MiB"),
        shown(sample.round_us.map(|us| us as f64 / 1000.0), 1),
    ));
    lines.push(String::new());
    let mut busiest = guests::table(model, &View::new(Shown::Guests, ""), room, false);
    let left = room.height.saturating_sub(lines.len());
    busiest.truncate(left);
    lines.extend(busiest);
    lines
}

fn swap(sample: &Sample) -> String {
    use model::HostField as H;
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
        let value = |id| sample.tier(tier, id);
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
    format!(
        "Guests   {}: {running} running, {asleep} asleep, {stand}{} else   have {} of {} MiB, \
         res {}",
        rows.len(),
        rows.len() - running - asleep - parked,
        size_of(has),
        size_of(of),
        size(sample.all_guests("private_mib").or(sample.all_guests("resident_mib"))),
    )
}
