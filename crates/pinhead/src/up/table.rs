//! Live table, with one line per guest and at least 80 columns.

use base::{Column, Table, left, right};
use farm::fleet::{Member, State};
use vm::{Accel, WhyEmulation};

/// Minimum width of the table, in columns.
const NARROWEST: usize = 20;

const COLUMNS: [Column; 8] = [
    left("GUEST").least(8),
    left("STATE").gap(1).least(9),
    right("CPUS").gap(1).least(5),
    right("MEMORY").gap(1).least(7),
    right("POOL").gap(1).least(7),
    right("CPU%").gap(1).least(6),
    right("STEAL%").gap(1).least(6),
    left("LAST, AND WHY"),
];

/// Formats the table of all guests.
pub fn draw<'a>(members: impl Iterator<Item = &'a Member>, width: usize) -> String {
    let mut table = Table::new(&COLUMNS);
    members.for_each(|member| table.row(row(member)));
    table.text_within(width.max(NARROWEST))
}

fn row(member: &Member) -> [String; 8] {
    let spec = member.spec();
    let (cpus, pool, reason) = match member.status() {
        Some(status) => (
            format!("{}/{}", status.cpus_online, status.cpus_present),
            format!("{}M", status.pool_pages / 256),
            status.reason.clone(),
        ),
        None => (format!("-/{}", spec.cpus), "-".into(), String::new()),
    };
    let (cpu, steal) = match member.usage() {
        Some(usage) => (format!("{:.1}", usage.cpu_percent), format!("{:.1}", usage.steal_percent)),
        None => ("-".into(), "-".into()),
    };
    let last = match member.state() {
        State::Ended(reason) => reason.clone(),
        State::Booting if spec.accel == Accel::Emulation(WhyEmulation::KvmSilent) => {
            format!("again, by {}", spec.accel)
        }
        _ => reason,
    };
    [
        spec.name.clone(),
        member.word().to_owned(),
        cpus,
        format!("{}M", spec.memory_mib),
        pool,
        cpu,
        steal,
        last,
    ]
}
