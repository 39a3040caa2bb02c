//! Guests and their manager in a table.

use base::{Column, Table, counted, left, plain, right};
use manager::control::{GuestRow, HostRow, KsmRow, OwnersRow, Ps, Status};
use model::label;
use policy::ksm::Phase;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Maximum length of a name with a monitor's path, in characters. The path has at most 107 bytes.
const LABEL_MAX: usize = 128;

const COLUMNS: [Column; 14] = [
    left("GUEST").width(16),
    left("STATE").gap(1).width(9),
    right("HAS").gap(1).least(7),
    right("OF").gap(1).least(7),
    right("IN HOST").gap(1).least(7),
    right("VMM").gap(1).least(4),
    right("SHARED").gap(1).least(6),
    right("SWAPPED").gap(1).least(7),
    right("COMPR").gap(1).least(5),
    right("AVAIL").gap(1).least(7),
    right("NEEDS").gap(1).least(6),
    right("CPU%").gap(1).least(6),
    right("PSI%").gap(1).least(5),
    left("LAST, AND WHY").most(100),
];

/// Formats the table, with one line per guest.
pub fn table(answer: &Ps) -> String {
    let mut columns = COLUMNS;
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    answer.guests.iter().for_each(|guest| *names.entry(&guest.name).or_default() += 1);
    let labels: Vec<String> = answer.guests.iter().map(|guest| name(guest, &names)).collect();
    if labels.iter().zip(&answer.guests).any(|(label, guest)| *label != guest.name) {
        columns[0] = left("GUEST").least(16).most(LABEL_MAX);
    }
    let mut table = Table::new(&columns);
    let rows = answer.guests.iter().zip(labels);
    rows.for_each(|(guest, label)| table.row(row(guest, label)));
    let mut out = table.text();
    if answer.guests.is_empty() {
        out.push_str("no guest was found yet\n");
    }
    host(&mut out, &answer.host);
    owners(&mut out, &answer.host.owners);
    let reported: u64 = answer.guests.iter().map(|guest| guest.reported_bytes).sum();
    if reported >= 1 << 20 {
        let _ = writeln!(out, "page reporting: {} MiB came back without a balloon", reported >> 20);
    }
    ksm(&mut out, &answer.ksm);
    out
}

/// Returns a guest's name. Its identity is added if another guest has the same name.
fn name(guest: &GuestRow, names: &BTreeMap<&str, usize>) -> String {
    match names.get(&*guest.name) {
        Some(2..) => label(&guest.name, &guest.uuid),
        _ => guest.name.clone(),
    }
}

fn row(guest: &GuestRow, name: String) -> [String; 14] {
    let percent = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.1}"));
    let reason = guest.unusable.as_ref().or(guest.reason.as_ref());
    [
        name,
        guest.state_name().to_owned(),
        mib(guest.actual_bytes),
        mib(Some(guest.memory_bytes)),
        mib(guest.resident_bytes),
        own(guest),
        mib(guest.shared_bytes),
        mib(guest.swapped_bytes),
        mib(guest.compressed_bytes),
        mib(guest.available_bytes),
        mib(guest.need_bytes),
        percent(guest.cpu_percent),
        percent(guest.psi_permille.map(|psi| psi / 10.0)),
        reason.cloned().unwrap_or_default(),
    ]
}

/// Formats the hypervisor's own memory. `~` marks an estimate.
fn own(guest: &GuestRow) -> String {
    let size = mib(guest.own_bytes);
    if guest.own_measured || guest.own_bytes.is_none() { size } else { format!("~{size}") }
}

/// Formats the host's memory by owner. Every byte belongs to one owner.
fn owners(out: &mut String, host: &OwnersRow) {
    let Some(used) = host.used_bytes else { return };
    let _ = writeln!(
        out,
        "used: {} MiB = guests {} + their hypervisors {} + shared by them {} + compressed {} + \
         pinhead {}{}{} + others {}",
        used >> 20,
        host.guests_bytes >> 20,
        host.hypervisors_bytes >> 20,
        host.shared_bytes >> 20,
        mib(host.compressed_bytes),
        mib(host.manager_bytes),
        part("huge pages", host.huge_pages_bytes),
        part("ZFS's cache", host.zfs_bytes),
        mib(host.other_bytes)
    );
}

/// Formats an owner's part that most hosts do not have.
fn part(name: &str, size: u64) -> String {
    let mib = size >> 20;
    if mib > 0 { format!(" + {name} {mib}") } else { String::new() }
}

fn host(out: &mut String, host: &HostRow) {
    let _ = write!(
        out,
        "host: {} MiB free of {} MiB; wants {} ± {}, keeps {}",
        mib(host.available_bytes),
        mib(host.total_bytes),
        mib(Some(host.set_point_bytes)),
        mib(Some(host.hysteresis_bytes)),
        mib(Some(host.reserve_bytes))
    );
    if let Some(budget) = host.budget_bytes {
        let _ = write!(out, "; guests may use {} MiB together", mib(Some(budget)));
    }
    for (what, size) in [("promised", host.promised_bytes), ("reserved", host.reserved_bytes)] {
        if size.is_some_and(|size| size > 0) {
            let _ = write!(out, "; {} MiB {what}", mib(size));
        }
    }
    out.push('\n');
}

fn ksm(out: &mut String, ksm: &KsmRow) {
    let Some(gain) = ksm.gain_bytes else { return };
    let cost = ksm.cost_percent.map_or("an unknown part".into(), |cost| format!("{cost:.1} %"));
    let phase = ksm.phase.map_or("left as it is", Phase::name);
    let _ = writeln!(
        out,
        "KSM: {} MiB saved by sharing equal pages, for {cost} of a core ({phase})",
        gain >> 20
    );
}

/// Formats the status of the manager.
pub fn status(answer: &Status) -> String {
    let mut out = String::new();
    let or_none = |text: &Option<String>| plain(text.as_deref().unwrap_or("none"), 200);
    let dry = if answer.dry_run { ", without changing anything (--dry-run)" } else { "" };
    let _ = writeln!(
        out,
        "pinhead {} (process {}), running for {} s{dry}",
        plain(&answer.version, 40),
        answer.pid,
        answer.uptime_ms / 1000
    );
    let _ = writeln!(out, "settings: {}", or_none(&answer.config));
    let _ = writeln!(out, "rules: {}", or_none(&answer.rules));
    let _ = writeln!(out, "shadow policy: {}", or_none(&answer.shadow));
    let _ = writeln!(out, "guests: {}, of them managed {}", answer.guests, answer.managed);
    for source in &answer.sources {
        let trouble = source.trouble.as_ref().map_or(String::new(), |t| format!(": {t}"));
        let guests = counted(source.guests as u64, "guest");
        let line = format!("source {}: {guests}{trouble}", source.name);
        let _ = writeln!(out, "{}", plain(&line, 300));
    }
    host(&mut out, &answer.host);
    ksm(&mut out, &answer.ksm);
    let keeper = answer.lease.keeper_pid.map_or("none".into(), |pid| format!("process {pid}"));
    let _ = writeln!(
        out,
        "lease: keeper {keeper}, would give memory back to {}, restarted {}",
        counted(answer.lease.guests as u64, "guest"),
        counted(answer.lease.restarts, "time")
    );
    let trouble = answer.journal.trouble.as_ref().map_or(String::new(), |t| format!(": {t}"));
    let line = format!(
        "journal: {}, {} waiting, {} lost{trouble}",
        answer.journal.path.as_deref().unwrap_or("none"),
        answer.journal.waiting,
        answer.journal.lost
    );
    let _ = writeln!(out, "{}", plain(&line, 300));
    let pass = answer.pass_us.map_or("-".into(), |us| format!("{us} µs"));
    let cpu = answer.cpu_percent.map_or("-".into(), |cpu| format!("{cpu:.2} %"));
    let _ = writeln!(
        out,
        "cost: {} passes, the last {pass}; {cpu} of a core since the start; {} MiB",
        answer.passes,
        mib(answer.resident_bytes)
    );
    if let Some(cpu) = answer.page_out_cpu_percent {
        let _ = writeln!(out, "page-out: {cpu:.2} % of a core since the start, not counted above");
    }
    for trouble in &answer.troubles {
        let _ = writeln!(out, "trouble: {}", plain(trouble, 300));
    }
    out
}

fn mib(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".into(), |bytes| (bytes >> 20).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_h13_namesakes_have_their_monitors_behind_them() {
        let row = |name: &str, uuid: &str| GuestRow {
            name: name.into(),
            uuid: uuid.into(),
            ..GuestRow::default()
        };
        let (host, ksm) = (HostRow::default(), KsmRow::default());
        let mut answer = Ps { host, ksm, guests: vec![row("windows", "/run/a.qmp")] };
        assert!(table(&answer).contains("\nwindows  "), "{}", table(&answer));
        answer.guests.push(row("windows", "/run/b.qmp"));
        answer.guests.push(row("web", "/run/c.qmp"));
        let text = table(&answer);
        for line in ["windows [/run/a.qmp] ", "windows [/run/b.qmp] ", "web  "] {
            assert!(text.lines().any(|found| found.starts_with(line)), "{line}: {text}");
        }
    }
}
