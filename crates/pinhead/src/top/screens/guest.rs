//! One guest.

use super::super::model::Model;
use super::super::sample::{Sample, Seen};
use super::super::view::View;
use super::{Room, decisions, last, name, size_of, wrapped};
use crate::escape::plain;
use reports::shown;

/// So many of its processes are shown, if their daemon has told of any.
const PROCESSES: usize = 5;

/// Its CPU, its waits, its memory, what its daemon tells, its processes, its decisions.
pub(super) fn lines(
    model: &Model,
    sample: &Sample,
    id: u64,
    view: &View,
    room: &Room<'_>,
) -> Vec<String> {
    let Some(row) = sample.ps.guests.iter().find(|row| row.id == id) else {
        return vec![String::new(), "  This guest is not there any more. Esc leads back.".into()];
    };
    let guest = sample.seen(row);
    let mut lines = vec![who(&guest), cpu(&guest)];
    lines.extend(waits(&guest));
    lines.extend(memory(&guest));
    lines.extend(inside(&guest));
    let processes = guest.processes();
    if !processes.is_empty() {
        lines.push(format!(
            "{:<25} {:>10} {:>10} {:>9}",
            "PROCESS", "OWN ms/min", "wakes/min", "MiB"
        ));
    }
    for (text, [cpu, wakes, mib]) in processes.into_iter().take(PROCESSES) {
        let (cpu, wakes, mib) = (shown(cpu, 1), shown(wakes, 0), shown(mib, 1));
        lines.push(format!("{} {cpu:>10} {wakes:>10} {mib:>9}", name(text, 25)));
    }
    lines.push(format!("LAST     {}", plain(row.clause.as_deref().unwrap_or("-"), 60)));
    lines.extend(wrapped(&last(row), 9, room.width));
    let left = room.height.saturating_sub(lines.len());
    let all = model.decisions.iter().filter(|one| one.id == id).skip(view.scroll).take(left);
    lines.extend(all.map(|one| decisions::line(one, room)));
    lines
}

fn who(guest: &Seen<'_>) -> String {
    let row = guest.row;
    let pid = row.pid.map_or("-".to_owned(), |pid| pid.to_string());
    format!(
        "GUEST    {}   {} {}   class {}   process {pid}   {}   {}",
        plain(&row.name, 40),
        plain(guest.state(), 10),
        plain(&row.mode, 10),
        plain(row.class.as_deref().unwrap_or("-"), 20),
        if row.daemon { "daemon" } else { "no daemon" },
        plain(&row.uuid, 36),
    )
}

fn cpu(guest: &Seen<'_>) -> String {
    format!(
        "CPU      {} %   T:V {}   {} vCPUs, {} in queue   {} wakes/min of {} ms",
        guest.text("cpu_percent"),
        guest.text("t_v_ratio"),
        guest.text("vcpus"),
        guest.text("in_queue"),
        guest.text("wakes_per_min"),
        guest.text("wake_cpu_ms"),
    )
}

fn waits(guest: &Seen<'_>) -> [String; 2] {
    let text = |id| guest.text(id);
    [
        format!(
            "WAITS %  run {}  emulation {}  poll {}  CPU {}  page {}  I/O {}",
            text("run_percent"),
            text("emulation_percent"),
            text("halt_poll_percent"),
            text("cpu_wait_percent"),
            text("page_wait_percent"),
            text("io_wait_percent"),
        ),
        format!(
            "         limit {}  idle {}  other {}   sum {}",
            text("limit_percent"),
            text("idle_percent"),
            text("other_percent"),
            text("states_percent"),
        ),
    ]
}

fn memory(guest: &Seen<'_>) -> [String; 2] {
    let row = guest.row;
    let bytes = |bytes| size_of(bytes);
    [
        format!(
            "MEMORY   has {} of {}   told {}   from {} to {}   shares {}   res {}",
            bytes(row.actual_bytes),
            bytes(Some(row.memory_bytes)),
            bytes(row.target_bytes),
            bytes(Some(row.min_bytes)),
            bytes(Some(row.max_bytes)),
            row.shares,
            bytes(row.resident_bytes),
        ),
        format!(
            "         available {}   needs {}   swapped {}   KSM {}   reported {}   faults {} /s",
            bytes(row.available_bytes),
            bytes(row.need_bytes),
            bytes(row.swapped_bytes),
            guest.text("merged_mib"),
            bytes(Some(row.reported_bytes)),
            guest.text("host_faults_per_s"),
        ),
    ]
}

fn inside(guest: &Seen<'_>) -> [String; 2] {
    let text = |id| guest.text(id);
    let age = guest.row.age_ms.map(|ms| ms as f64 / 1000.0);
    [
        format!(
            "INSIDE   available {}   cache {}   swap {} of {}   waits {} %  full {} %",
            text("own_available_mib"),
            text("own_cached_mib"),
            text("own_swap_used_mib"),
            text("own_swap_mib"),
            text("own_psi_some_percent"),
            text("own_psi_full_percent"),
        ),
        format!(
            "         refaults {} + {} /s   busy {} %   stolen {} %   told {} s ago",
            text("own_refault_file_pages_per_s"),
            text("own_refault_anonymous_pages_per_s"),
            text("own_busy_percent"),
            text("own_steal_percent"),
            shown(age, 1),
        ),
    ]
}
