//! Guests and their manager in a table.

use crate::listing::ListingArgs;
use crate::terminal::fitted;
use base::{Column, MIB, Table, counted, left, plain, prose, right};
use manager::control::{GuestRow, HostRow, KsmRow, OwnersRow, Ps, Status};
use model::label;
use policy::ksm::Phase;
use reports::{mib, shown};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Maximum length of a name with a monitor's path, in characters. The path has at most 107 bytes.
const LABEL_MAX: usize = 128;
/// Maximum length of a reason, in characters.
const REASON_MAX: usize = 400;

/// Columns of the table. A narrow terminal first omits the columns about the guest's memory on the
/// host.
const COLUMNS: [Column; 14] = [
    left("GUEST").least(16).most(LABEL_MAX),
    left("STATE").gap(1).width(9),
    right("HAS").gap(1).least(7),
    right("OF").gap(1).least(7).rank(3),
    right("IN HOST").gap(1).least(7).rank(2),
    right("VMM").gap(1).least(4).rank(10),
    right("SHARED").gap(1).least(6).rank(9),
    right("SWAPPED").gap(1).least(7).rank(7),
    right("COMPR").gap(1).least(5).rank(8),
    right("AVAIL").gap(1).least(7).rank(5),
    right("NEEDS").gap(1).least(6).rank(4),
    right("VCPU%").gap(1).least(6).rank(1),
    right("PSI%").gap(1).least(5).rank(6),
    prose("LAST, AND WHY").most(REASON_MAX),
];

/// Returns the table, with one row per guest.
pub fn table(answer: &Ps) -> Table {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    answer.guests.iter().for_each(|guest| *names.entry(&guest.name).or_default() += 1);
    let mut table = Table::new(&COLUMNS);
    answer.guests.iter().for_each(|guest| table.row(row(guest, name(guest, &names))));
    table
}

/// Formats guests and, unless the options name guests, the host.
pub fn show(answer: &Ps, listing: &ListingArgs, width: Option<usize>) -> String {
    let mut out = String::new();
    if !answer.guests.is_empty() || listing.guests.is_empty() {
        out.push_str(&listing.show(table(answer), width));
    }
    if listing.guests.is_empty() {
        out.push_str(&fitted(&foot(answer), width));
    }
    out
}

/// Formats the host's memory, below the table.
fn foot(answer: &Ps) -> String {
    let mut out = String::new();
    if answer.guests.is_empty() {
        out.push_str("no guest was found yet\n");
    }
    host(&mut out, &answer.host);
    owners(&mut out, &answer.host.owners);
    let reported: u64 = answer.guests.iter().map(|guest| guest.reported_bytes).sum();
    if reported >= 1 << 20 {
        let _ = writeln!(
            out,
            "page reporting: guests returned {} MiB without a balloon",
            mib(Some(reported))
        );
    }
    ksm(&mut out, &answer.ksm);
    watching(&mut out, &answer.host);
    out
}

/// Returns a guest's name. The guest's identity is added if another guest has the same name.
fn name(guest: &GuestRow, names: &BTreeMap<&str, usize>) -> String {
    match names.get(&*guest.name) {
        Some(2..) => label(&guest.name, &guest.uuid),
        _ => guest.name.clone(),
    }
}

fn row(guest: &GuestRow, name: String) -> [String; 14] {
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
        shown(guest.cpu_percent, 1),
        shown(guest.psi_permille.map(|psi| psi / 10.0), 1),
        reason.cloned().unwrap_or_default(),
    ]
}

/// Formats the hypervisor's own memory. `~` marks an estimate.
fn own(guest: &GuestRow) -> String {
    let size = mib(guest.own_bytes);
    if guest.own_measured || guest.own_bytes.is_none() { size } else { format!("~{size}") }
}

/// Formats the host's memory by owner. Every byte belongs to one owner. A page merged by KSM
/// exists once, but is in the rows of several guests.
fn owners(out: &mut String, host: &OwnersRow) {
    let Some(used) = host.used_bytes else { return };
    let _ = writeln!(
        out,
        "used: {} MiB = guests {}{} + their hypervisors {} + shared by them {} + compressed {} + \
         pinhead {}{}{} + others {}",
        mib(Some(used)),
        mib(Some(host.guests_bytes)),
        match host.saved_bytes {
            0..MIB => String::new(),
            saved => format!(" (KSM saves {})", mib(Some(saved))),
        },
        mib(Some(host.hypervisors_bytes)),
        mib(Some(host.shared_bytes)),
        mib(host.compressed_bytes),
        mib(host.manager_bytes),
        part("huge pages", host.huge_pages_bytes),
        part("ZFS's cache", host.zfs_bytes),
        mib(host.other_bytes)
    );
}

/// Formats the part of an owner that exists only on some hosts.
fn part(name: &str, size: u64) -> String {
    if size >= 1 << 20 { format!(" + {name} {}", mib(Some(size))) } else { String::new() }
}

/// Formats the host's memory. A budget is shown only if it bounds the guests' memory, which means
/// that the host has more free memory than the budget has left.
fn host(out: &mut String, host: &HostRow) {
    let total = mib(host.total_bytes);
    let available = mib(host.available_bytes);
    let is_bound = match (host.available_bytes, host.machine_available_bytes) {
        (Some(in_budget), Some(all)) => in_budget < all,
        _ => true,
    };
    let _ = match host.budget_bytes.filter(|_| is_bound) {
        None => write!(out, "host {total} MiB, {available} available"),
        Some(budget) => write!(
            out,
            "budget {} MiB, {available} free in it; host {total} MiB, {} available",
            mib(Some(budget)),
            mib(host.machine_available_bytes)
        ),
    };
    let _ = write!(
        out,
        "; set point {} ± {}, reserve {}",
        mib(Some(host.set_point_bytes)),
        mib(Some(host.hysteresis_bytes)),
        mib(Some(host.reserve_bytes))
    );
    for (what, size) in [("promised", host.promised_bytes), ("reserved", host.reserved_bytes)] {
        if size.is_some_and(|size| size > 0) {
            let _ = write!(out, "; {} MiB {what}", mib(size));
        }
    }
    out.push('\n');
}

/// Formats the sentence about a manager that changes nothing.
fn watching(out: &mut String, host: &HostRow) {
    if let Some(text) = &host.watching {
        let _ = writeln!(out, "{}", plain(text, REASON_MAX));
    }
}

fn ksm(out: &mut String, ksm: &KsmRow) {
    let Some(gain) = ksm.gain_bytes else { return };
    let cost = ksm.cost_percent.map_or("an unknown part".into(), |cost| format!("{cost:.1} %"));
    let phase = ksm.phase.map_or("not managed", Phase::name);
    let _ = writeln!(
        out,
        "KSM: {} MiB saved by sharing equal pages, for {cost} of a core (scanner {phase})",
        mib(Some(gain))
    );
}

/// Formats the status of the manager.
pub fn status(answer: &Status, width: Option<usize>) -> String {
    let mut out = String::new();
    let or_none = |text: &Option<String>| plain(text.as_deref().unwrap_or("none"), 200);
    let _ = writeln!(
        out,
        "pinhead {} (process {}), running for {} s",
        plain(&answer.version, 40),
        answer.pid,
        answer.uptime_ms / 1000
    );
    watching(&mut out, &answer.host);
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
        "journal: {}, {} records waiting, {} lost{trouble}",
        answer.journal.path.as_deref().unwrap_or("none"),
        answer.journal.waiting,
        answer.journal.lost
    );
    let _ = writeln!(out, "{}", plain(&line, 300));
    let pass = answer.pass_us.map_or("-".into(), |us| format!("{us} µs"));
    let cpu = answer.cpu_percent.map_or("-".into(), |cpu| format!("{cpu:.2} %"));
    let _ = writeln!(
        out,
        "cost: {} passes, the last in {pass}; {cpu} of a core since the start; {} MiB of memory",
        answer.passes,
        mib(answer.resident_bytes)
    );
    if let Some(cpu) = answer.page_out_cpu_percent {
        let _ = writeln!(out, "page-out: {cpu:.2} % of a core since the start, not counted above");
    }
    let is_shown = |text: &&String| answer.sources.iter().any(|s| s.trouble.as_ref() == Some(text));
    for trouble in answer.troubles.iter().filter(|text| !is_shown(text)) {
        let _ = writeln!(out, "trouble: {}", plain(trouble, 300));
    }
    fitted(&out, width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::testing::{WIDTHS, Words, check_fits};

    #[test]
    fn memory_saved_by_ksm_is_named_beside_the_guests() {
        let text = |guests_mib: u64, saved_mib: u64| {
            let mut out = String::new();
            let used_bytes = Some(900 * MIB);
            let (guests_bytes, saved_bytes) = (guests_mib * MIB, saved_mib * MIB);
            let host = OwnersRow { used_bytes, guests_bytes, saved_bytes, ..OwnersRow::default() };
            owners(&mut out, &host);
            out
        };
        assert!(text(95, 81).contains("= guests 95 (KSM saves 81) + "), "{}", text(95, 81));
        assert!(text(176, 0).contains("= guests 176 + "), "{}", text(176, 0));
    }

    #[test]
    fn report_h13_namesakes_are_shown_with_their_monitors() {
        let row = |name: &str, uuid: &str| GuestRow {
            name: name.into(),
            uuid: uuid.into(),
            ..GuestRow::default()
        };
        let (host, ksm) = (HostRow::default(), KsmRow::default());
        let mut answer = Ps { host, ksm, guests: vec![row("windows", "/run/a.qmp")] };
        let text = |answer: &Ps| show(answer, &ListingArgs::default(), None);
        assert!(text(&answer).contains("\nwindows  "), "{}", text(&answer));
        answer.guests.push(row("windows", "/run/b.qmp"));
        answer.guests.push(row("web", "/run/c.qmp"));
        let text = text(&answer);
        for line in ["windows [/run/a.qmp] ", "windows [/run/b.qmp] ", "web  "] {
            assert!(text.lines().any(|found| found.starts_with(line)), "{line}: {text}");
        }
    }

    fn random(words: &mut Words) -> Ps {
        let guest = |words: &mut Words| GuestRow {
            name: words.name(),
            actual_bytes: Some(words.number(1 << 43)),
            memory_bytes: words.number(1 << 43),
            own_bytes: Some(words.number(1 << 40)),
            cpu_percent: Some(words.number(6400) as f64),
            reason: Some(words.sentence()),
            ..GuestRow::default()
        };
        let guests = (0..words.number(9)).map(|_| guest(words)).collect();
        let host = HostRow {
            total_bytes: Some(words.number(1 << 43)),
            budget_bytes: Some(words.number(1 << 43)).filter(|size| size % 2 == 0),
            owners: Box::new(OwnersRow { used_bytes: Some(7 << 40), ..OwnersRow::default() }),
            ..HostRow::default()
        };
        Ps { host, ksm: KsmRow { gain_bytes: Some(7), ..KsmRow::default() }, guests }
    }

    #[test]
    fn table_of_guests_fits_every_width() {
        Words::each(|mut words| {
            let answer = random(&mut words);
            for width in WIDTHS {
                let shown = show(&answer, &ListingArgs::default(), Some(width));
                let texts = answer.guests.iter().flat_map(|guest| {
                    [Some(guest.name.as_str()), guest.reason.as_deref()].into_iter().flatten()
                });
                check_fits(&shown, width, texts);
            }
        });
    }

    #[test]
    fn status_fits_every_width() {
        Words::each(|mut words| {
            let trouble = [words.sentence(), words.sentence()];
            let status = Status { troubles: trouble.to_vec(), ..Status::default() };
            for width in WIDTHS {
                check_fits(
                    &super::status(&status, Some(width)),
                    width,
                    trouble.iter().map(String::as_str),
                );
            }
        });
    }

    #[test]
    fn the_least_important_columns_are_left_out_at_80() {
        let guests = vec![GuestRow { name: "g1".into(), ..GuestRow::default() }];
        let answer = Ps { host: HostRow::default(), ksm: KsmRow::default(), guests };
        let fitted = table(&answer).fit(80);
        assert_eq!(fitted.hidden, ["VMM", "SHARED", "COMPR", "SWAPPED"]);
        assert!(table(&answer).fit(120).hidden.is_empty());
        let heads = table(&answer).heads();
        assert!(heads.contains(&"VCPU%") && !heads.contains(&"CPU%"), "{heads:?}");
    }

    #[test]
    fn budget_is_shown_with_its_free_part() {
        let mib = |mib: u64| Some(mib << 20);
        let row = HostRow {
            total_bytes: mib(24105),
            available_bytes: mib(0),
            machine_available_bytes: mib(23130),
            set_point_bytes: 48 << 20,
            hysteresis_bytes: 4 << 20,
            reserve_bytes: 14 << 20,
            budget_bytes: mib(480),
            ..HostRow::default()
        };
        let shown = |row: &HostRow| {
            let mut out = String::new();
            host(&mut out, row);
            out
        };
        assert_eq!(
            shown(&row),
            "budget 480 MiB, 0 free in it; host 24105 MiB, 23130 available; set point 48 ± 4, \
             reserve 14\n"
        );
        let host_only = "host 24105 MiB, 23130 available; set point 48 ± 4, reserve 14\n";
        let row = HostRow { available_bytes: mib(23130), ..row };
        assert_eq!(shown(&row), host_only, "the host has no more than the budget");
        let row = HostRow { budget_bytes: None, ..row };
        assert_eq!(shown(&row), host_only);
    }

    #[test]
    fn manager_that_changes_nothing_is_named_with_the_remedy() {
        let text =
            "watching 30 guests, changing nothing; set `act = true` in /etc/pinhead/host.toml";
        let host = HostRow { watching: Some(text.into()), ..HostRow::default() };
        let answer = Ps { host: host.clone(), ksm: KsmRow::default(), guests: Vec::new() };
        let table = show(&answer, &ListingArgs::default(), None);
        assert!(table.ends_with(&format!("\n{text}\n")), "{table}");
        let status = status(&Status { host, ..Status::default() }, None);
        assert_eq!(status.lines().nth(1), Some(text), "{status}");
    }
}
