//! Generated guests of a generated day, as data of a manager, of recordings and of a metrics
//! server.

use base::Bytes;
use jiff::tz::TimeZone;
use manager::control::{GuestRow, GuestRunState, HostRow, Ps};
use metrics::fleet::{Fleet, Glance, Host};
use model::{GuestField, GuestIdentity, HostField, Interval, Over, Row};
use reports::recorded::{self, Wanted};
use reports::{HostData, Needs, testing};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use web::SourceError;
use whatif::backtest::Advised;
use whatif::{Fault, Finding, Gain, Remedy};
use why::when::Now;

pub const GUESTS: usize = 100;
pub const MINUTE_MS: i64 = 60_000;
const NO_UUID: &str = "00000000-0000-0000-0000-000000000000";

/// Returns the name of a guest. The name of the first guest contains markup.
pub fn name(number: usize) -> String {
    if number == 0 { "<script>alert(1)</script>".into() } else { format!("web{number}") }
}

fn who(number: usize) -> GuestIdentity {
    GuestIdentity {
        name: name(number),
        class: if number.is_multiple_of(2) { "web" } else { "db" }.into(),
        // A guest started by hand has a UUID of zeros, which counts as no UUID.
        uuid: NO_UUID.into(),
        pid: Some(1_000 + u32::try_from(number).expect("a number")),
        ..GuestIdentity::default()
    }
}

fn seen(number: usize, length_ms: u64) -> Over<GuestField> {
    let mut row = Row::default();
    let share = (number as u64 + 1) * 1_000;
    row.set(GuestField::VcpuRun, Some(share * length_ms));
    row.set(GuestField::OtherRun, Some(0));
    row.set(GuestField::VcpuDelay, Some(share * length_ms / 10));
    row.set(GuestField::Vcpus, Some(1));
    row.set(GuestField::Actual, Some((64 + number as u64) << 20));
    row.set(GuestField::Private, Some((20 + number as u64) << 20));
    Over { covered_ms: length_ms, row }
}

/// Returns the data of all guests in an interval.
pub fn interval(from_ms: i64, length_ms: u64) -> Interval {
    interval_of(GUESTS, from_ms, length_ms)
}

/// Returns the data of `guests` guests in an interval.
pub fn interval_of(guests: usize, from_ms: i64, length_ms: u64) -> Interval {
    let mut host = Row::default();
    host.set(HostField::Cpus, Some(2));
    host.set(HostField::User, Some(length_ms * 500_000));
    host.set(HostField::System, Some(length_ms * 100_000));
    host.set(HostField::Total, Some(24 << 30));
    host.set(HostField::Available, Some(12 << 30));
    host.set(HostField::Free, Some(10 << 30));
    host.set(HostField::Anonymous, Some(6 << 30));
    host.set(HostField::Cached, Some(4 << 30));
    Interval {
        from_ms,
        length_ms,
        host: Over { covered_ms: length_ms, row: host },
        guests: (0..guests).map(|number| (who(number), seen(number, length_ms))).collect(),
        ..Interval::default()
    }
}

pub fn ps() -> Ps {
    let guest = |number: usize| GuestRow {
        id: number as u64,
        name: name(number),
        uuid: NO_UUID.into(),
        pid: who(number).pid,
        class: Some(who(number).class),
        state: GuestRunState::Running,
        asleep: number > 50,
        memory_bytes: 256 << 20,
        min_bytes: 64 << 20,
        max_bytes: 256 << 20,
        shares: 100,
        // One guest is libvirt's. web1 and web2 are also guests of a farm.
        source: if number == 5 { "qemu:///system" } else { "/run/qemu.qmp" }.into(),
        reason: Some("there is no <demand>".into()),
        ..GuestRow::default()
    };
    let host = HostRow {
        total_bytes: Some(24 << 30),
        available_bytes: Some(7 << 20),
        budget_bytes: Some(480 << 20),
        ..HostRow::default()
    };
    Ps { host, ksm: Default::default(), guests: (0..GUESTS).map(guest).collect() }
}

/// Returns the finding that a guest has too little memory.
pub fn small(guest: &str) -> Advised {
    let finding = Finding {
        fault: Fault::TooSmall,
        guest: guest.into(),
        evidence: Vec::new(),
        chart: Vec::new(),
        remedy: Remedy::Memory(Bytes::mib(512)),
        gain: Gain::default(),
    };
    Advised { finding, foretold: None }
}

pub fn recorded(wanted: &Wanted) -> Result<Vec<HostData>, SourceError> {
    if wanted.from_ms < testing::DAY_MS {
        return Err(recorded::Error::Missing("/var/lib/pinhead/recordings".into()).into());
    }
    let step = wanted.step_ms.unsigned_abs();
    let mut host = HostData { name: "host<1>".into(), ..HostData::default() };
    let mut at_ms = wanted.from_ms;
    while at_ms < wanted.to_ms && host.intervals.len() < 2_000 {
        host.add(interval(at_ms, step));
        at_ms += wanted.step_ms;
    }
    Ok(vec![host])
}

/// Returns the data of three hosts in a metrics server. The last host was killed five minutes ago.
pub fn pushed(host: Option<&str>, wanted: &Wanted) -> Result<Vec<HostData>, SourceError> {
    let all = ["one", "two", "three & last"];
    let meant = all.iter().filter(|name| host.is_none_or(|host| host == **name));
    let hosts: Vec<HostData> = meant
        .map(|name| {
            let mut host = recorded(wanted)?.remove(0);
            host.name = (*name).into();
            if name.starts_with("three") {
                host.intervals.retain(|interval| interval.from_ms < now().ms - 5 * MINUTE_MS);
            }
            for interval in &mut host.intervals {
                let left_ms = (now().ms - interval.from_ms).min(wanted.step_ms);
                interval.host.covered_ms = left_ms.unsigned_abs();
            }
            Ok(host)
        })
        .collect::<Result<_, SourceError>>()?;
    Ok(hosts)
}

/// Returns the same data in aggregated form.
pub fn glance(wanted: &Glance) -> Result<Fleet, SourceError> {
    let Glance { from_ms, to_ms, .. } = *wanted;
    let needs = Needs { guests: Vec::new(), processes: Vec::new() };
    let asked = Wanted { from_ms, to_ms, step_ms: MINUTE_MS, needs };
    let glanced = |host: HostData| {
        let mut whole = Interval::default();
        let known = host.intervals.iter().filter(|one| one.host.covered_ms > 0);
        known.for_each(|interval| whole.add(interval));
        let covered_ms = whole.host.covered_ms;
        let mut together = Over { covered_ms, ..Over::default() };
        whole.guests.values().for_each(|over| together.add_concurrent(over));
        let mut loudest: Vec<_> = whole.guests.into_iter().collect();
        let like = &wanted.loudest.like;
        loudest.retain(|(who, _)| format!("{} {}", who.name, who.class).contains(like));
        let guests = loudest.len() as u64;
        loudest.sort_by_key(|(_, over)| Reverse(over.get(GuestField::VcpuRun)));
        // The three hosts have equal guests, so each gets a third of the sum.
        loudest.truncate(wanted.loudest.most / 3);
        let last_ms = whole.from_ms + covered_ms.cast_signed();
        let (first_ms, samples, over) = (last_ms - 5_000, 1.0, whole.host);
        (host.name, Host { first_ms, last_ms, samples, guests, over, together, loudest })
    };
    let hosts: BTreeMap<String, Host> = pushed(None, &asked)?.into_iter().map(glanced).collect();
    Ok(Fleet { found: hosts.values().map(|host| host.guests).sum(), hosts })
}

pub fn now() -> Now {
    Now { ms: testing::DAY_MS + 720 * MINUTE_MS, zone: TimeZone::UTC }
}
