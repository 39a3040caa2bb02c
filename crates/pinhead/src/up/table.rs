//! The live table: one line a guest, 80 columns and more.

use base::plain;
use farm::fleet::{Member, State};
use farm::{Accel, WhyEmulation};
use std::fmt::Write as _;

/// The narrowest table that is drawn.
const NARROWEST: usize = 20;

/// The table of all guests.
pub fn draw<'a>(members: impl Iterator<Item = &'a Member>, width: usize) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:<8} {:<9} {:>5} {:>7} {:>7} {:>6} {:>6}  LAST, AND WHY",
        "GUEST", "STATE", "CPUS", "MEMORY", "POOL", "CPU%", "STEAL%"
    );
    for member in members {
        let line = row(member);
        let _ = writeln!(out, "{}", plain(&line, width.max(NARROWEST)));
    }
    out
}

fn row(member: &Member) -> String {
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
    format!(
        "{:<8} {:<9} {:>5} {:>7} {:>7} {:>6} {:>6}  {}",
        spec.name,
        member.state().word(),
        cpus,
        format!("{}M", spec.memory_mib),
        pool,
        cpu,
        steal,
        last
    )
}
