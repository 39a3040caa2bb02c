//! What libvirt tells, as the fields that a manager records.
//!
//! What it does not tell is missing. Two things are concluded, and [`available`] and
//! [`SET_POINT_PERMILLE`] say how.

use crate::session::Told;
use base::{Bytes, KIB};
use model::{GuestField as G, GuestIdentity, HostField as H, Moment, Row};
use std::collections::BTreeMap;
use virtrpc::{DomainStats, Value};

const NS_PER_S: u64 = 1_000_000_000;
/// A host without a manager is taken to want as much free memory as one by default.
const SET_POINT_PERMILLE: u64 = 100;

/// The times of a domain so far, which never go back.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    run: u64,
    other: u64,
}

/// Moments of one host.
#[derive(Default)]
pub(crate) struct Rows {
    times: BTreeMap<GuestIdentity, Times>,
}

impl Rows {
    pub(crate) fn of(&mut self, told: &Told, at_ms: i64) -> Moment {
        let mut guests = BTreeMap::new();
        let mut times = BTreeMap::new();
        for domain in &told.domains {
            let who = identity(domain);
            let before = self.times.get(&who).copied().unwrap_or_default();
            let (row, now) = guest(&domain.values, before);
            times.insert(who.clone(), now);
            guests.insert(who, row);
        }
        self.times = times;
        let held = guests.values().filter_map(|row| row.get(G::Resident)).map(Bytes).sum();
        let mut host = host(told, held);
        host.set(H::Guests, Some(guests.len() as u64));
        Moment { at_ms, host, guests, ..Moment::default() }
    }
}

fn identity(domain: &DomainStats) -> GuestIdentity {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let uuid = &domain.domain.uuid;
    let parts = [&uuid[..4], &uuid[4..6], &uuid[6..8], &uuid[8..10], &uuid[10..]].map(hex);
    GuestIdentity {
        uuid: parts.join("-"),
        name: domain.domain.name.clone(),
        // libvirt's number of it is new with each start.
        boot: domain.domain.id.to_string(),
        ..GuestIdentity::default()
    }
}

fn find(values: &[Value], name: &str) -> Option<u64> {
    values.iter().find(|value| value.name == name).map(|value| value.value)
}

fn bytes(kib: u64) -> Bytes {
    Bytes(kib.saturating_mul(KIB))
}

fn find_kib(values: &[Value], name: &str) -> Option<u64> {
    find(values, name).map(|kib| bytes(kib).0)
}

/// The sum over all devices of a kind: `net.*.rx.bytes`.
fn sum(values: &[Value], kind: &str, of: &str) -> Option<u64> {
    let each = values.iter().filter(|value| {
        let rest = value.name.strip_prefix(kind).and_then(|rest| rest.strip_prefix('.'));
        let number = rest.and_then(|rest| rest.strip_suffix(of)?.strip_suffix('.'));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    });
    each.map(|value| value.value).reduce(u64::saturating_add)
}

fn host(told: &Told, held: Bytes) -> Row<H> {
    let memory = |name| find_kib(&told.memory, name);
    let cpu = |name| find(&told.cpu, name);
    let total = memory("total").unwrap_or(bytes(told.node.memory_kib).0);
    let left = available(told, Bytes(total), held).map(|size| size.0);
    let mut row = Row::default();
    row.extend([
        (H::Cpus, Some(told.node.cpus.into())),
        (H::User, cpu("user")),
        (H::System, cpu("kernel")),
        (H::Idle, cpu("idle")),
        (H::IoWait, cpu("iowait")),
        (H::Total, Some(total)),
        (H::Free, memory("free")),
        (H::Buffers, memory("buffers")),
        (H::Cached, memory("cached")),
        (H::Available, left),
        (H::Spare, left),
        (H::SetPoint, Some(Bytes(total).permille(SET_POINT_PERMILLE).0)),
    ]);
    row
}

/// What could be handed out without swapping: free memory and cache, less what of the guests'
/// own memory must lie in the cache, since there is not as much beside it. libvirt does not tell
/// of shared memory, which the kernel counts as cache.
fn available(told: &Told, total: Bytes, held: Bytes) -> Option<Bytes> {
    let [free, buffers, cached] =
        ["free", "buffers", "cached"].map(|name| find(&told.memory, name).map(bytes));
    let cache = buffers?.plus(cached?);
    let beside = total.less(free?.plus(cache));
    Some(free?.plus(cache.less(held.less(beside))))
}

fn guest(values: &[Value], before: Times) -> (Row<G>, Times) {
    let kib = |name| find_kib(values, name);
    let vcpus = find(values, "vcpu.current");
    let run = sum(values, "vcpu", "time");
    let all = find(values, "cpu.time");
    // They are not read at the same time, and a CPU that is unplugged takes its time with it.
    let times = Times {
        run: before.run.max(run.unwrap_or(0)),
        other: before.other.max(all.unwrap_or(0).saturating_sub(run.unwrap_or(0))),
    };
    let updated = find(values, "balloon.last-update").filter(|seconds| *seconds > 0);
    // Without a report these are what they were before the first one.
    let report = |name| updated.and_then(|_| find_kib(values, name));
    let mut row = Row::default();
    row.extend([
        (G::Vcpus, vcpus),
        (G::VcpuRun, run.map(|_| times.run)),
        (G::VcpuDelay, sum(values, "vcpu", "delay")),
        (G::OtherRun, all.map(|_| times.other)),
        (G::Memory, kib("balloon.maximum")),
        (G::Actual, kib("balloon.current")),
        (G::Resident, kib("balloon.rss")),
        (G::BalloonTime, updated.and_then(|seconds| seconds.checked_mul(NS_PER_S))),
        (G::BalloonTotal, report("balloon.available")),
        (G::BalloonFree, report("balloon.unused")),
        (G::BalloonAvailable, report("balloon.usable")),
        (G::BalloonCached, report("balloon.disk_caches")),
        (G::BalloonSwapIn, report("balloon.swap_in")),
        (G::BalloonSwapOut, report("balloon.swap_out")),
        (G::BalloonMajorFaults, updated.and_then(|_| find(values, "balloon.major_fault"))),
        // As a manager does where no daemon runs.
        (G::OwnTotal, report("balloon.available")),
        (G::OwnFree, report("balloon.unused")),
        (G::OwnAvailable, report("balloon.usable")),
        (G::OwnCached, report("balloon.disk_caches")),
        (G::BlockReads, sum(values, "block", "rd.reqs")),
        (G::BlockReadBytes, sum(values, "block", "rd.bytes")),
        (G::BlockWrites, sum(values, "block", "wr.reqs")),
        (G::BlockWriteBytes, sum(values, "block", "wr.bytes")),
        (G::NetInPackets, sum(values, "net", "rx.pkts")),
        (G::NetInBytes, sum(values, "net", "rx.bytes")),
        (G::NetOutPackets, sum(values, "net", "tx.pkts")),
        (G::NetOutBytes, sum(values, "net", "tx.bytes")),
    ]);
    (row, times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::MIB;
    use virtrpc::{Domain, NodeInfo};

    fn values(pairs: &[(&str, u64)]) -> Vec<Value> {
        pairs.iter().map(|(name, value)| Value { name: (*name).into(), value: *value }).collect()
    }

    fn told(domain: &[(&str, u64)], memory: &[(&str, u64)]) -> Told {
        let of = Domain { name: "web".into(), uuid: *b"0123456789abcdef", id: 3 };
        Told {
            node: NodeInfo { memory_kib: 4 << 20, cpus: 2 },
            cpu: values(&[("kernel", 5), ("user", 7), ("idle", 11), ("iowait", 13)]),
            memory: values(memory),
            domains: vec![DomainStats { domain: of, values: values(domain) }],
        }
    }

    fn only(moment: &Moment) -> &Row<G> {
        moment.guests.values().next().unwrap()
    }

    #[test]
    fn a_domain_is_a_guest() {
        let domain = [
            ("cpu.time", 90),
            ("vcpu.current", 2),
            ("vcpu.0.time", 30),
            ("vcpu.1.time", 40),
            ("vcpu.1.wait", 1_000),
            ("balloon.current", 2_048),
            ("balloon.maximum", 4_096),
            ("balloon.rss", 1_024),
            ("balloon.usable", 512),
            ("net.count", 1),
            ("net.0.rx.bytes", 17),
            ("block.0.rd.bytes", 19),
            ("block.1.rd.bytes", 23),
        ];
        let mut rows = Rows::default();
        let moment = rows.of(&told(&domain, &[]), 1_000);
        let (who, row) = moment.guests.first_key_value().unwrap();
        assert_eq!(who.uuid, "30313233-3435-3637-3839-616263646566");
        assert_eq!((who.name.as_str(), who.boot.as_str(), moment.at_ms), ("web", "3", 1_000));
        let expected = [
            (G::Vcpus, Some(2)),
            (G::VcpuRun, Some(70)),
            (G::VcpuDelay, None),
            (G::OtherRun, Some(20)),
            (G::Actual, Some(2 * MIB)),
            (G::Memory, Some(4 * MIB)),
            (G::Resident, Some(MIB)),
            // Its balloon has reported nothing yet.
            (G::OwnAvailable, None),
            (G::NetInBytes, Some(17)),
            (G::NetOutBytes, None),
            (G::BlockReadBytes, Some(42)),
        ];
        for (field, value) in expected {
            assert_eq!(row.get(field), value, "{field:?}");
        }
        let host = [(H::Cpus, 2), (H::User, 7), (H::System, 5), (H::Idle, 11), (H::Guests, 1)];
        for (field, value) in host {
            assert_eq!(moment.host.get(field), Some(value), "{field:?}");
        }
        assert_eq!(moment.host.get(H::Available), None, "nothing was told of its memory");
        let reported = [&domain[..], &[("balloon.last-update", 1_700_000_000)]].concat();
        let moment = rows.of(&told(&reported, &[]), 2_000);
        assert_eq!(only(&moment).get(G::OwnAvailable), Some(MIB / 2));
    }

    #[test]
    fn times_never_go_back() {
        let mut rows = Rows::default();
        let of = |rows: &mut Rows, all, run| {
            let moment = rows.of(&told(&[("cpu.time", all), ("vcpu.0.time", run)], &[]), 0);
            [G::VcpuRun, G::OtherRun].map(|field| only(&moment).get(field))
        };
        assert_eq!(of(&mut rows, 100, 70), [Some(70), Some(30)]);
        assert_eq!(of(&mut rows, 101, 75), [Some(75), Some(30)]);
        assert_eq!(of(&mut rows, 120, 60), [Some(75), Some(60)]);
    }

    #[test]
    fn guests_in_shared_memory_are_no_cache() {
        let memory = [("total", 4 << 20), ("free", 1 << 20), ("buffers", 0), ("cached", 2 << 20)];
        let left = |rss_kib| {
            let moment = Rows::default().of(&told(&[("balloon.rss", rss_kib)], &memory), 0);
            moment.host.get(H::Available).map(|bytes| bytes / MIB)
        };
        // A GiB is used beside free memory and cache: guests that have no more may be there.
        assert_eq!(left(1 << 20), Some(3_072));
        assert_eq!(left(2 << 20), Some(2_048));
        assert_eq!(left(8 << 20), Some(1_024));
    }
}
