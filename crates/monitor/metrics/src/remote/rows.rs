//! libvirt's statistics, as the fields that a manager records.
//!
//! Values that libvirt does not report are missing. Two values are estimated: see [`available`] and
//! [`SET_POINT_PERMILLE`].

use crate::remote::Error;
use crate::remote::growth::Growth;
use base::{Bytes, KIB};
use hypervisor::balloon_row;
use model::{GuestField as G, GuestIdentity, HostField as H, Moment, Row};
use std::collections::BTreeMap;
use virtrpc::{Domain, NodeInfo, Value};

/// Maximum number of counters that one host may report at a time, and maximum number that are kept
/// for the host. The number allows 128 counters for each domain, at libvirt's maximum number of
/// domains. A disk and an interface together have 8 counters.
pub(crate) const NUMBERS_MAX: usize = 128 * virtrpc::DOMAINS_MAX;
/// Maximum number of digits of a device's number. QEMU's buses have fewer than 1,000 devices.
const DEVICE_DIGITS_MAX: usize = 3;
/// Set point of a host without a manager: the manager's default.
const SET_POINT_PERMILLE: u64 = 100;
/// Counters of devices, each with its device's number: `net.0.rx.bytes`.
const OF_DEVICES: [(&str, &str, G); 8] = [
    ("block", "rd.reqs", G::BlockReads),
    ("block", "rd.bytes", G::BlockReadBytes),
    ("block", "wr.reqs", G::BlockWrites),
    ("block", "wr.bytes", G::BlockWriteBytes),
    ("net", "rx.pkts", G::NetInPackets),
    ("net", "rx.bytes", G::NetInBytes),
    ("net", "tx.pkts", G::NetOutPackets),
    ("net", "tx.bytes", G::NetOutBytes),
];
const CPU: &str = "cpu.time";
const BALLOON: &str = "balloon.";
/// Maximum memory as libvirt counts it, including all memory that virtio-mem could provide.
pub(crate) const MAXIMUM: &str = "balloon.maximum";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) domain: Domain,
    pub(crate) vcpus: Option<u32>,
    /// Memory that the domain can have now.
    pub(crate) memory: Option<Bytes>,
    /// Values of the domain that are used.
    pub(crate) values: Vec<Value>,
}

/// Answers of libvirt for one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Time at which all counters had been read.
    pub(crate) at_ms: i64,
    pub(crate) node: NodeInfo,
    pub(crate) cpu: Vec<Value>,
    pub(crate) memory: Vec<Value>,
    pub(crate) domains: Vec<Seen>,
}

/// State for the moments of one host.
#[derive(Default)]
pub(crate) struct Rows {
    host: Growth,
    guests: BTreeMap<GuestIdentity, Growth>,
}

impl Rows {
    /// Converts a moment. If a host has more counters than allowed, the moment is refused and the
    /// host's kept counters are dropped.
    pub(crate) fn of(&mut self, told: &Told) -> Result<Moment, Error> {
        let mut rows = BTreeMap::new();
        let mut before = std::mem::take(&mut self.guests);
        for seen in &told.domains {
            let who = identity(&seen.domain);
            let mut growth = before.remove(&who).unwrap_or_default();
            rows.insert(who.clone(), guest(seen, &mut growth));
            self.guests.insert(who, growth);
        }
        if self.guests.values().map(Growth::numbers).sum::<usize>() > NUMBERS_MAX {
            *self = Rows::default();
            return Err(Error::Numbers { most: NUMBERS_MAX });
        }
        let held = rows.values().filter_map(|row| row.get(G::Resident)).map(Bytes).sum();
        let mut host = host(told, held, &mut self.host);
        host.set(H::Guests, Some(rows.len() as u64));
        Ok(Moment { at_ms: told.at_ms, host, guests: rows, ..Moment::default() })
    }
}

/// Returns true if a value of a domain is used. libvirt reports dozens of other values.
pub(crate) fn is_used(name: &str) -> bool {
    name.starts_with(BALLOON) || counter(name).is_some()
}

/// Returns the sum that a counter is part of, and the number of its device.
fn counter(name: &str) -> Option<(&'static str, u16)> {
    if name == CPU {
        return Some((CPU, 0));
    }
    OF_DEVICES.iter().find_map(|(kind, of, _)| {
        let rest = name.strip_prefix(kind)?.strip_prefix('.')?;
        let number = rest.strip_suffix(of)?.strip_suffix('.')?;
        let is_number =
            number.len() <= DEVICE_DIGITS_MAX && number.bytes().all(|byte| byte.is_ascii_digit());
        Some((*of, number.parse().ok().filter(|_| is_number)?))
    })
}

fn identity(domain: &Domain) -> GuestIdentity {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let uuid = &domain.uuid;
    let parts = [&uuid[..4], &uuid[4..6], &uuid[6..8], &uuid[8..10], &uuid[10..]].map(hex);
    GuestIdentity {
        uuid: parts.join("-"),
        name: domain.name.clone(),
        // libvirt gives each start of a domain a new id. When the host restarts, the ids begin
        // again.
        boot: domain.id.to_string(),
        ..GuestIdentity::default()
    }
}

pub(crate) fn find(values: &[Value], name: &str) -> Option<u64> {
    values.iter().find(|value| value.name == name).map(|value| value.value)
}

fn bytes(kib: u64) -> Bytes {
    Bytes(kib.saturating_mul(KIB))
}

fn find_kib(values: &[Value], name: &str) -> Option<u64> {
    find(values, name).map(|kib| bytes(kib).0)
}

fn host(told: &Told, held: Bytes, growth: &mut Growth) -> Row<H> {
    let memory = |name| find_kib(&told.memory, name);
    // The kernel's own counters of idle time occasionally fall a little.
    for name in ["user", "kernel", "idle", "iowait"] {
        if let Some(now) = find(&told.cpu, name) {
            growth.add(name, &[(0, now)]);
        }
    }
    let cpu = |name| growth.sum(name);
    let total = memory("total").unwrap_or(bytes(told.node.memory_kib).0);
    let left = available(told, Bytes(total), held).map(|size| size.0);
    let mut row = Row::default();
    row.extend([
        (H::Cpus, Some(told.node.cpus.into())),
        // User time includes guest time, because libvirt does not report guest time separately.
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

/// Estimates the memory that is available without swapping: free memory and cache, less the guests'
/// memory that the kernel counts as cache. The kernel counts shared memory as cache, and libvirt
/// does not report the amount of shared memory. Guests' memory that does not fit into the rest of
/// the host's memory must be in the cache.
fn available(told: &Told, total: Bytes, held: Bytes) -> Option<Bytes> {
    let [free, buffers, cached] =
        ["free", "buffers", "cached"].map(|name| find(&told.memory, name).map(bytes));
    let cache = buffers?.plus(cached?);
    let beside = total.less(free?.plus(cache));
    Some(free?.plus(cache.less(held.less(beside))))
}

fn guest(seen: &Seen, growth: &mut Growth) -> Row<G> {
    let values = seen.values.as_slice();
    let kib = |name| find_kib(values, name);
    let mut counters: BTreeMap<&'static str, Vec<(u16, u64)>> = BTreeMap::new();
    for Value { name, value } in values {
        if let Some((sum, device)) = counter(name) {
            counters.entry(sum).or_default().push((device, *value));
        }
    }
    for (sum, told) in counters {
        growth.add(sum, &told);
    }
    let run = growth.sum(CPU);
    let updated = find(values, "balloon.last-update").filter(|seconds| *seconds > 0);
    let memory = seen.memory.map(|bytes| bytes.0);
    // For a domain without a balloon libvirt counts all memory that virtio-mem could provide.
    let actual = kib("balloon.current");
    let mut row = Row::default();
    row.extend([
        (G::Vcpus, seen.vcpus.map(u64::from)),
        // CPU time of the guest's virtual CPUs and its hypervisor together.
        (G::VcpuRun, run),
        (G::OtherRun, run.map(|_| 0)),
        (G::Memory, memory),
        (G::Actual, actual.map(|bytes| bytes.min(memory.unwrap_or(bytes)))),
        (G::Resident, kib("balloon.rss")),
    ]);
    // If the balloon has not reported yet, its statistics have their initial values.
    if let Some(updated_s) = updated {
        let stats = [
            (G::BalloonTotal, kib("balloon.available")),
            (G::BalloonFree, kib("balloon.unused")),
            (G::BalloonAvailable, kib("balloon.usable")),
            (G::BalloonCached, kib("balloon.disk_caches")),
            (G::BalloonSwapIn, kib("balloon.swap_in")),
            (G::BalloonSwapOut, kib("balloon.swap_out")),
            (G::BalloonMajorFaults, find(values, "balloon.major_fault")),
        ];
        row.overlay(&balloon_row(updated_s, Bytes(u64::MAX), stats));
    }
    row.extend(OF_DEVICES.map(|(_, of, field)| (field, growth.sum(of))));
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::MIB;

    fn values(pairs: &[(&str, u64)]) -> Vec<Value> {
        pairs.iter().map(|(name, value)| Value { name: (*name).into(), value: *value }).collect()
    }

    fn told(domain: &[(&str, u64)], memory: &[(&str, u64)]) -> Told {
        let of = Domain { name: "web".into(), uuid: *b"0123456789abcdef", id: 3 };
        Told {
            at_ms: 1_000,
            node: NodeInfo { memory_kib: 4 << 20, cpus: 2 },
            cpu: values(&[("kernel", 5), ("user", 7), ("idle", 11), ("iowait", 13)]),
            memory: values(memory),
            domains: vec![Seen {
                domain: of,
                vcpus: Some(2),
                memory: Some(Bytes::mib(3)),
                values: values(domain),
            }],
        }
    }

    fn only(moment: &Moment) -> &Row<G> {
        moment.guests.values().next().unwrap()
    }

    #[test]
    fn a_domain_is_converted_to_a_guest() {
        let domain = [
            ("cpu.time", 90),
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
        let moment = rows.of(&told(&domain, &[])).unwrap();
        let (who, row) = moment.guests.first_key_value().unwrap();
        assert_eq!(who.uuid, "30313233-3435-3637-3839-616263646566");
        assert_eq!((who.name.as_str(), who.boot.as_str(), moment.at_ms), ("web", "3", 1_000));
        let expected = [
            (G::Vcpus, Some(2)),
            (G::VcpuRun, Some(90)),
            (G::VcpuDelay, None),
            (G::OtherRun, Some(0)),
            (G::Actual, Some(2 * MIB)),
            (G::Memory, Some(3 * MIB)),
            (G::Resident, Some(MIB)),
            // The balloon has reported nothing yet.
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
        assert_eq!(moment.host.get(H::Available), None, "libvirt has not reported its memory");
        let reported = [&domain[..], &[("balloon.last-update", 1_700_000_000)]].concat();
        let moment = rows.of(&told(&reported, &[])).unwrap();
        assert_eq!(only(&moment).get(G::OwnAvailable), Some(MIB / 2));
        assert_eq!(only(&moment).get(G::OwnTotal), None, "no daemon has reported it");
    }

    #[test]
    fn domain_has_at_most_the_memory_of_its_virtio_mem() {
        let mut told = told(&[("balloon.current", 4_096), ("balloon.maximum", 4_096)], &[]);
        let mut of = |memory| {
            told.domains[0].memory = memory;
            let moment = Rows::default().of(&told).unwrap();
            [G::Memory, G::Actual].map(|field| only(&moment).get(field))
        };
        assert_eq!(of(Some(Bytes::mib(3))), [Some(3 * MIB), Some(3 * MIB)]);
        assert_eq!(of(None), [None, Some(4 * MIB)], "its description was not had");
    }

    #[test]
    fn counters_never_go_back() {
        let mut rows = Rows::default();
        let mut of = |cpu, disks: &[(&str, u64)]| {
            let told = told(&[&[("cpu.time", cpu)], disks].concat(), &[]);
            let moment = rows.of(&told).unwrap();
            [G::VcpuRun, G::BlockReads].map(|field| only(&moment).get(field))
        };
        let both = [("block.0.rd.reqs", 1_000), ("block.1.rd.reqs", 50)];
        assert_eq!(of(100, &both), [Some(100), Some(1_050)]);
        assert_eq!(of(120, &both[1..]), [Some(120), Some(1_050)], "a disk was unplugged");
        // The host was restarted, and the guest has the same id there.
        assert_eq!(of(7, &[("block.1.rd.reqs", 2)]), [Some(127), Some(1_052)]);
        assert_eq!(of(9, &[]), [Some(129), Some(1_052)]);
    }

    #[test]
    fn unused_values_are_not_kept() {
        for name in ["cpu.time", "balloon.rss", "net.12.tx.pkts", "block.0.wr.bytes"] {
            assert!(is_used(name), "{name}");
        }
        for name in ["cpu.user", "net.count", "net.0.name", "net.x.rx.bytes", "block.0.rd.times"] {
            assert!(!is_used(name), "{name}");
        }
    }

    #[test]
    fn finding2_06_counters_of_a_removed_device_are_dropped() {
        let mut rows = Rows::default();
        for round in 0..10 {
            let names: Vec<String> =
                (0..900).map(|name| format!("block.{}.rd.reqs", round * 900 + name)).collect();
            let values: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
            rows.of(&told(&values, &[])).unwrap();
            let kept: usize = rows.guests.values().map(Growth::numbers).sum();
            assert!(kept <= 1_800, "{kept} in round {round}, with those of the round before");
        }
        for name in ["block.1000.rd.reqs", "block..rd.reqs", "net.+1.rx.bytes"] {
            assert!(!is_used(name), "{name}");
        }
        assert!(is_used("block.999.rd.reqs"));
    }

    #[test]
    fn finding2_06_host_with_too_many_counters_is_refused() {
        let mut rows = Rows::default();
        let names: Vec<String> = (0..1_000).map(|name| format!("net.{name}.rx.pkts")).collect();
        let values: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        let mut told = told(&values, &[]);
        let seen = told.domains[0].clone();
        let guests = i32::try_from(NUMBERS_MAX / values.len() + 1).unwrap();
        told.domains = (0..guests)
            .map(|id| Seen { domain: Domain { id, ..seen.domain.clone() }, ..seen.clone() })
            .collect();
        let error = rows.of(&told).unwrap_err().to_string();
        assert!(error.contains("524288"), "{error}");
        assert!(rows.guests.is_empty(), "nothing of it is kept");
        told.domains.truncate(1);
        assert_eq!(only(&rows.of(&told).unwrap()).get(G::NetInPackets), Some(1_000));
    }

    #[test]
    fn finding2_06_counters_left_out_once_are_counted_once() {
        let mut rows = Rows::default();
        let disk = [("block.0.rd.reqs", 1_000)];
        for (values, expected) in [(&disk[..], 1_000), (&[], 1_000), (&disk[..], 1_000)] {
            let moment = rows.of(&told(values, &[])).unwrap();
            assert_eq!(only(&moment).get(G::BlockReads), Some(expected));
        }
    }

    #[test]
    fn guests_in_shared_memory_do_not_count_as_cache() {
        let memory = [("total", 4 << 20), ("free", 1 << 20), ("buffers", 0), ("cached", 2 << 20)];
        let left = |rss_kib| {
            let told = told(&[("balloon.rss", rss_kib)], &memory);
            let moment = Rows::default().of(&told).unwrap();
            moment.host.get(H::Available).map(|bytes| bytes / MIB)
        };
        // One GiB of memory is neither free nor cache, so it may be the memory of guests.
        assert_eq!(left(1 << 20), Some(3_072));
        assert_eq!(left(2 << 20), Some(2_048));
        assert_eq!(left(8 << 20), Some(1_024));
    }
}
