//! Screen of one guest.

use super::super::model::Model;
use super::super::sample::{Process, Sample, Seen};
use super::super::text::flowed;
use super::super::vcpus::Share;
use super::super::view::View;
use super::history::{labelled, past};
use super::room::{Line, Room, Tint, fill, last, name, size_of, tint};
use base::plain;
use model::clause::Clause;
use reports::{Scope, shown};

/// Maximum numbers of vCPUs, processes and wakers shown, below the height `TALL` and from `TALL`
/// on.
const FEW: Most = Most { vcpus: 1, processes: 3, wakers: 3 };
const MANY: Most = Most { vcpus: 4, processes: 8, wakers: 8 };
/// Number of lines between head and foot from which a terminal counts as tall.
const TALL: usize = 30;
/// Number of lines below which a terminal counts as low.
const LOW: usize = 12;
const HEAD_LOW: usize = 2;
/// Maximum number of lines of the reason.
const REASON_MAX: usize = 5;
/// Maximum width of a UUID, or of the monitor's path if the guest has no UUID.
const UUID_MAX: usize = 107;
/// Width of a process's name.
const NAME: usize = 25;

struct Most {
    vcpus: usize,
    processes: usize,
    wakers: usize,
}

/// Returns the lines: reason, CPUs, waits, memory, the daemon's report, processes, wakers, graphs
/// and decisions.
pub(super) fn lines(
    model: &Model,
    sample: &Sample,
    id: u64,
    view: &View,
    room: &Room<'_>,
) -> Vec<Line> {
    let Some(row) = sample.ps.guests.iter().find(|row| row.id == id) else {
        let gone = "  This guest is gone. Esc goes back.";
        return vec![Line::default(), gone.to_owned().into()];
    };
    let most = if room.height >= TALL { MANY } else { FEW };
    let guest = sample.seen(row);
    let mut head = flowed(who(&guest), room.width);
    if room.height < LOW {
        head.truncate(HEAD_LOW);
    }
    let mut lines: Vec<Line> = head.into_iter().map(|line| Line::new(line, tint(&guest))).collect();
    let words = [row.clause.map_or("-", Clause::name).to_owned(), last(row)];
    let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let rest = labelled("LAST", &words.join(": "), REASON_MAX, room);
    lines.extend(rest.into_iter().map(|line| Line::new(line, Tint::Title)));
    let mut rest = vec![cpu(&guest)];
    rest.extend(vcpus(model, sample, &guest, most.vcpus, room));
    rest.extend(waits(&guest));
    rest.extend(memory(&guest));
    rest.extend(inside(&guest));
    lines.extend(rest.into_iter().flat_map(|line| flowed(line, room.width)).map(Line::from));
    lines.extend(processes(&guest, sample, &most).into_iter().map(Line::from));
    let left = room.height.saturating_sub(lines.len());
    lines.extend(past(model, &guest, view.scroll, left, room));
    lines
}

fn who(guest: &Seen<'_>) -> String {
    let row = guest.row;
    let pid = row.pid.map_or("-".to_owned(), |pid| pid.to_string());
    format!(
        "GUEST    {}   {} {}   class {}   process {pid}   {}   {}",
        plain(&row.name, 40),
        guest.state(),
        guest.mode(),
        plain(row.class.as_deref().unwrap_or("-"), 20),
        if row.daemon { "daemon" } else { "no daemon" },
        plain(&row.uuid, UUID_MAX),
    )
}

fn cpu(guest: &Seen<'_>) -> String {
    fields(
        guest,
        "CPU      {cpu_percent} %   T:V {t_v_ratio}   {vcpus} vCPUs, {in_queue} in queue   \
         {wakes_per_min} wakes/min of {wake_cpu_ms} ms",
    )
}

fn fields(guest: &Seen<'_>, line: &str) -> String {
    fill(line, Scope::Guest, |id| guest.field(id))
}

/// Returns the run time and wait time of each vCPU on the host, in percent.
fn vcpus(
    model: &Model,
    sample: &Sample,
    guest: &Seen<'_>,
    most: usize,
    room: &Room<'_>,
) -> Vec<String> {
    const HEAD: &str = "run+stl% ";
    let why = |text: &str| vec![format!("{HEAD}{text}")];
    if sample.is_recorded() {
        return why("a recording has only the sum of all virtual CPUs");
    }
    if guest.row.vcpu_tids.is_empty() {
        return why("the threads of the virtual CPUs are unknown");
    }
    let vcpus = &model.vcpus;
    if !vcpus.is_of(guest.row.id) {
        return why("-");
    }
    if !vcpus.is_readable() {
        return why("the threads of the guest's process cannot be read");
    }
    let cell = |(number, share): (usize, &Option<Share>)| {
        let of = |part: fn(&Share) -> f64| shown(share.as_ref().map(part), 1);
        format!("{number:>2} {:>5}+{:<5}", of(|share| share.run), of(|share| share.delay))
    };
    let cells: Vec<String> = vcpus.shares.iter().enumerate().map(cell).collect();
    let a_line = (room.width.saturating_sub(HEAD.len()) / 16).max(1);
    let mut lines: Vec<String> = cells
        .chunks(a_line)
        .take(most)
        .enumerate()
        .map(|(at, cells)| {
            let head = if at == 0 { HEAD } else { "         " };
            format!("{head}{}", cells.join("  ").trim_end())
        })
        .collect();
    if let Some(hidden) = cells.len().checked_sub(a_line * most).filter(|more| *more > 0)
        && let Some(last) = lines.last_mut()
    {
        last.push_str(&format!("  +{hidden}"));
    }
    lines
}

fn waits(guest: &Seen<'_>) -> [String; 2] {
    [
        "WAITS %  run {run_percent}  emulation {emulation_percent}  poll {halt_poll_percent}  \
         CPU {cpu_wait_percent}  page {page_wait_percent}  I/O {io_wait_percent}",
        "         limit {limit_percent}  idle {idle_percent}  parked {parked_percent}  \
         other {other_percent}   sum {states_percent}",
    ]
    .map(|line| fields(guest, line))
}

fn memory(guest: &Seen<'_>) -> [String; 3] {
    let row = guest.row;
    let bytes = |bytes| size_of(bytes);
    let known = |bytes| size_of(guest.known(bytes));
    [
        format!(
            "MEMORY   has {} of {}   target {}   from {} to {}   shares {}   priv {}",
            bytes(row.actual_bytes),
            known(row.memory_bytes),
            bytes(row.target_bytes),
            known(row.min_bytes),
            known(row.max_bytes),
            guest.known(u64::from(row.shares)).map_or("-".to_owned(), |n| n.to_string()),
            bytes(row.private_bytes.or(row.resident_bytes)),
        ),
        format!(
            "         available {}   needs {}   swapped {}   KSM {}   reported {}   faults {}",
            bytes(row.available_bytes),
            bytes(row.need_bytes),
            bytes(row.swapped_bytes),
            fields(guest, "{merged_mib}"),
            known(row.reported_bytes),
            fields(guest, "{host_faults_per_s} /s"),
        ),
        format!(
            "IN HOST  guest {}   hypervisor {}{}   shared {}   compressed {}",
            bytes(row.resident_bytes),
            bytes(row.own_bytes),
            if row.own_measured || row.own_bytes.is_none() { "" } else { " (estimated)" },
            bytes(row.shared_bytes),
            bytes(row.compressed_bytes),
        ),
    ]
}

fn inside(guest: &Seen<'_>) -> [String; 2] {
    let age = guest.row.age_ms.map(|ms| ms as f64 / 1000.0);
    let inside = fields(
        guest,
        "INSIDE   available {own_available_mib}   cache {own_cached_mib}   \
         swap {own_swap_used_mib} of {own_swap_mib}   \
         waits {own_psi_some_percent} %  full {own_psi_full_percent} %",
    );
    if !guest.row.daemon {
        return [
            inside,
            "         no daemon runs in the guest, so only the balloon reports".to_owned(),
        ];
    }
    let reported = fields(
        guest,
        "         refaults {own_refault_file_pages_per_s} + \
         {own_refault_anonymous_pages_per_s} /s   \
         busy {own_busy_percent} %   stolen {own_steal_percent} %",
    );
    [inside, format!("{reported}   reported {} s ago", shown(age, 1))]
}

/// Returns the processes with the most CPU time, and the most frequent wakers, from the daemon's
/// last report. For single threads use `pinhead idle`, which requests a new report.
fn processes(guest: &Seen<'_>, sample: &Sample, most: &Most) -> Vec<String> {
    let mut all = guest.processes();
    if all.is_empty() {
        let why = match (guest.row.daemon, sample.is_recorded()) {
            (false, _) => "no daemon runs in the guest to report processes and wakers",
            (true, false) => "two reports are needed; a running guest reports once a minute",
            (true, true) => "the guest's daemon reported no processes in this time",
        };
        return vec![format!("PROCESS  {why}")];
    }
    let number = |value: Option<f64>| value.unwrap_or(-1.0);
    let named = |process: &Process| match process.pid {
        0 => name(&process.name, NAME),
        pid => name(&format!("{} ({pid})", plain(&process.name, NAME - 8)), NAME),
    };
    let mut lines = vec![format!("{:<NAME$} {:>10} {:>9}", "PROCESS", "CPU ms/min", "MiB")];
    all.sort_by(|a, b| number(b.cpu_ms).total_cmp(&number(a.cpu_ms)));
    let row = |one: &Process| {
        format!("{} {:>10} {:>9}", named(one), shown(one.cpu_ms, 1), shown(one.mib, 1))
    };
    lines.extend(all.iter().take(most.processes).map(row));
    lines.push(format!("{:<NAME$} {:>10} {:>9}", "WAKER", "wakes/min", "us/wake"));
    all.sort_by(|a, b| number(b.wakes).total_cmp(&number(a.wakes)));
    let row = |one: &Process| {
        let us = one.wake_ms.map(|ms| ms * 1000.0);
        format!("{} {:>10} {:>9}", named(one), shown(one.wakes, 1), shown(us, 1))
    };
    let wakes = all.iter().filter(|one| one.wakes.is_some());
    lines.extend(wakes.take(most.wakers).map(row));
    lines
}
