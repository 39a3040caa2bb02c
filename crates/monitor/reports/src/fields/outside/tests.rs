use crate::facts::Added;
use crate::fields::{Scope, field};
use crate::{Facts, facts};
use model::{Field, GuestField as G, HostField as H, Over, Row};

/// Length of the recorded time: one minute.
const COVERED_MS: u64 = 60_000;
const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;

fn over<F: Field>(values: &[(F, u64)]) -> Over<F> {
    let mut row = Row::default();
    values.iter().for_each(|(field, value)| row.set(*field, Some(*value)));
    Over { covered_ms: COVERED_MS, row }
}

/// Returns a field's value for the given raw values of a guest and of the host.
fn value(scope: Scope, id: &str, guest: &[(G, u64)], host: &[(H, u64)]) -> Option<f64> {
    let (guest, host) = (over(guest), over(host));
    let added = Added::of(&guest);
    let facts = Facts { host: &host, guest: &guest, added: &added, ..Facts::default() };
    field(scope, id).unwrap_or_else(|| panic!("no field {id}")).value(&facts)
}

fn check(id: &str, guest: &[(G, u64)], expected: Option<f64>) {
    let value = value(Scope::Guest, id, guest, &[]);
    let is_same = match (value, expected) {
        (Some(value), Some(expected)) => (value - expected).abs() < 1e-6,
        (value, expected) => value == expected,
    };
    assert!(is_same, "{id} of {guest:?} is {value:?}, not {expected:?}");
}

#[test]
fn bursts_are_shares_of_all_bursts() {
    let all = [(G::Bursts50, 70), (G::Bursts200, 20), (G::Bursts1000, 9), (G::BurstsLong, 1)];
    for (id, expected) in [
        ("bursts_per_min", 100.0),
        ("burst_short_percent", 70.0),
        ("burst_middle_percent", 20.0),
        ("burst_long_percent", 9.0),
        ("burst_longest_percent", 1.0),
        ("burst_trivial_percent", 90.0),
    ] {
        check(id, &all, Some(expected));
        check(id, &all[..3], None);
    }
    let none = all.map(|(field, _)| (field, 0));
    check("bursts_per_min", &none, Some(0.0));
    check("burst_trivial_percent", &none, None);
}

#[test]
fn rests_and_asynchronous_io_are_parts_of_the_halted_time() {
    let ran = [(G::Vcpus, 1), (G::VcpuRun, 6 * SECOND), (G::VcpuDelay, 0)];
    let with = |more: &[(G, u64)]| [&ran[..], more].concat();
    check("idle_percent", &ran, Some(90.0));
    check("idle_short_percent", &ran, None);
    let split = with(&[(G::IdleShort, 12 * SECOND), (G::OtherBlockIo, 6 * SECOND)]);
    check("idle_short_percent", &split, Some(20.0));
    check("async_io_percent", &split, Some(10.0));
    check("idle_percent", &split, Some(60.0));
    check("states_percent", &split, Some(100.0));
    // Neither value exceeds the available time. If halts are counted, both values are parts of the
    // halted time.
    let much = with(&[(G::IdleShort, 90 * SECOND), (G::OtherBlockIo, 99 * SECOND)]);
    check("async_io_percent", &much, Some(90.0));
    check("idle_short_percent", &much, Some(0.0));
    let parked = with(&[(G::Parked, 24 * SECOND), (G::IdleShort, 3 * SECOND)]);
    check("parked_percent", &parked, Some(40.0));
    check("idle_short_percent", &parked, Some(5.0));
    check("idle_percent", &parked, Some(45.0));
    check("states_percent", &parked, Some(100.0));
    check("parked_percent", &with(&[(G::Parked, 99 * SECOND)]), Some(90.0));
    let both = with(&[(G::Parked, 24 * SECOND), (G::HaltWait, 30 * SECOND)]);
    check("idle_percent", &both, Some(50.0));
    check("other_percent", &both, Some(0.0));
    let halts = with(&[(G::HaltWait, 30 * SECOND), (G::IdleShort, 42 * SECOND)]);
    check("idle_short_percent", &halts, Some(50.0));
    check("idle_percent", &halts, Some(0.0));
    check("other_percent", &halts, Some(40.0));
    check("states_percent", &halts, Some(100.0));
}

#[test]
fn the_working_set_is_what_is_known_of_it() {
    check("working_set_mib", &[], None);
    let parts = [(G::Actual, 100 * MIB), (G::OwnAvailable, 60 * MIB)];
    check("working_set_mib", &parts, None);
    // In earlier recordings `OwnWorkingSet` had one meaning with a daemon, and another meaning
    // without a daemon.
    let old = [(G::OwnWorkingSet, 3 * MIB), (G::OwnAnonymous, 2 * MIB)];
    let row = [&parts[..], &old, &[(G::OwnActiveFile, 10 * MIB)]].concat();
    check("working_set_mib", &row, Some(50.0));
    check("tight_ratio", &row, Some(0.5));
    let load = value(Scope::Host, "load_ratio", &row, &[(H::Total, 200 * MIB)]);
    assert_eq!(load, Some(0.25));
}

#[test]
fn memory_is_by_tier() {
    check("low_mib", &[(G::Low, 64 * MIB)], Some(64.0));
    check("zswapped_mib", &[(G::GroupZswapped, 3 * MIB)], Some(3.0));
    check("on_disk_mib", &[(G::GroupSwap, 5 * MIB)], Some(5.0));
    let both = [(G::GroupSwap, 5 * MIB), (G::GroupZswapped, 3 * MIB)];
    check("on_disk_mib", &both, Some(2.0));
    check("on_disk_mib", &[(G::GroupSwap, 1), (G::GroupZswapped, 9)], Some(0.0));
    for (id, field) in [
        ("zswap_in_pages_per_s", G::GroupZswapIn),
        ("zswap_out_pages_per_s", G::GroupZswapOut),
        ("disk_in_pages_per_s", G::GroupSwapIn),
        ("disk_out_pages_per_s", G::GroupSwapOut),
        ("migrated_pages_per_s", G::GroupZswapBack),
        ("host_refault_anonymous_pages_per_s", G::GroupRefaultAnonymous),
        ("host_refault_file_pages_per_s", G::GroupRefaultFile),
        ("block_reads_per_s", G::BlockReads),
        ("block_writes_per_s", G::BlockWrites),
    ] {
        check(id, &[(field, 120)], Some(2.0));
        check(id, &[], None);
    }
}

#[test]
fn hits_are_what_was_read_and_not_fetched() {
    let read = |asked, fetched| [(G::BlockReadBytes, asked), (G::ReadBytes, fetched)];
    check("cache_hit_percent", &read(1000, 250), Some(75.0));
    check("cache_hit_percent", &read(1000, 4000), Some(0.0));
    check("cache_hit_percent", &read(0, 0), None);
    check("block_read_kib_per_s", &[(G::BlockReadBytes, 60 << 10)], Some(1.0));
    check("block_write_kib_per_s", &[(G::BlockWriteBytes, 60 << 10)], Some(1.0));
    let host = [(H::ImagesCached, 10 * MIB), (H::ImageBytes, 20 * MIB), (H::Images, 2)];
    let of_host = |id| value(Scope::Host, id, &[(G::ImagesCached, 30 * MIB)], &host);
    assert_eq!(of_host("image_sharing_ratio"), Some(3.0));
    assert_eq!((of_host("images"), of_host("images_mib")), (Some(2.0), Some(20.0)));
    assert_eq!(of_host("image_cached_mib"), Some(10.0));
    let hits = value(Scope::Host, "cache_hit_percent", &read(100, 50), &[]);
    assert_eq!(hits, Some(50.0));
    check("images_mib", &[(G::Images, MIB)], Some(1.0));
    check("image_cached_mib", &[(G::ImagesCached, MIB)], Some(1.0));
}

#[test]
fn network_counts_come_from_tap_devices_or_else_the_daemon() {
    let own = [(G::OwnReceived, 60 << 10), (G::OwnSentPackets, 60)];
    check("net_in_kib_per_s", &own, Some(1.0));
    check("net_out_per_s", &own, Some(1.0));
    check("net_in_per_s", &own, None);
    let tap = [&own[..], &[(G::NetInBytes, 120 << 10), (G::NetInPackets, 6)]].concat();
    check("net_in_kib_per_s", &tap, Some(2.0));
    check("net_in_per_s", &tap, Some(0.1));
    check("net_out_kib_per_s", &[(G::NetOutBytes, 60 << 10)], Some(1.0));
    check("own_in_kib_per_s", &tap, Some(1.0));
    check("own_out_kib_per_s", &[(G::OwnSent, 60 << 10)], Some(1.0));
}

#[test]
fn daemon_reported_guest_values_are_shown_unchanged() {
    check("own_load", &[(G::OwnLoad, 1250)], Some(1.25));
    check("own_running", &[(G::OwnRunning, 2)], Some(2.0));
    check("own_blocked", &[(G::OwnBlocked, 1)], Some(1.0));
    check("own_root_percent", &[(G::OwnRootUsed, 425)], Some(42.5));
    let all = [(G::OwnPlugs, 1), (G::OwnUnplugs, 2), (G::OwnGrows, 3), (G::OwnShrinks, 4)];
    check("own_decisions", &all, Some(10.0));
    check("own_decisions", &all[..3], None);
}

#[test]
fn watermarks_are_of_all_zones() {
    for (id, field) in [
        ("watermark_min_mib", H::MinWatermark),
        ("watermark_low_mib", H::LowWatermark),
        ("watermark_high_mib", H::HighWatermark),
    ] {
        let value = value(Scope::Host, id, &[], &[(field, 3 * MIB)]);
        assert_eq!(value, Some(3.0), "{id} is in {} bytes", facts::MIB);
    }
}

#[test]
fn shared_memory_of_clones_is_counted_once() {
    // A hundred clones with 29 MiB private and 74 MiB resident each.
    let guest =
        [(G::Resident, 7_400 * MIB), (G::Private, 2_900 * MIB), (G::Hypervisor, 1_100 * MIB)];
    let host = [
        (H::Total, 24_000 * MIB),
        (H::Free, 19_000 * MIB),
        (H::Anonymous, 3_400 * MIB),
        (H::Cached, 1_000 * MIB),
        (H::Shared, 10 * MIB),
        (H::OwnResident, 20 * MIB),
        (H::Together, 80 * MIB),
    ];
    let of = |guest: &[(G, u64)], id| value(Scope::Host, id, guest, &host);
    for (id, mib) in [
        ("guests_mib", 1_800.0),
        ("hypervisors_mib", 1_100.0),
        ("together_mib", 80.0),
        ("manager_mib", 20.0),
        ("processes_mib", 480.0),
        ("cache_mib", 910.0),
        ("other_mib", 600.0),
    ] {
        assert_eq!(of(&guest, id), Some(mib), "{id}");
    }
    // An old recording has resident sets only; the manager's memory is still known.
    let old = &guest[..1];
    assert_eq!(of(old, "manager_mib"), Some(20.0));
    assert_eq!((of(old, "hypervisors_mib"), of(old, "processes_mib")), (None, Some(0.0)));
}
