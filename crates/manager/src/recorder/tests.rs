use super::row;
use counters::Bytes;
use hypervisor::BalloonStats;
use model::{GuestField, Row};

#[test]
fn what_a_guest_reports_is_capped_at_what_it_can_have() {
    let sample = wire::Memory {
        total_kib: Some(u64::MAX - 1),
        free_kib: Some(10),
        swap_free_kib: Some(u64::MAX - 1),
        psi_some_us: Some(u64::MAX - 1),
        psi_full_us: Some(7),
        ..wire::Memory::default()
    };
    let mut row = Row::default();
    row::put_memory(&mut row, &sample, 1 << 30);
    assert_eq!(row.get(GuestField::OwnTotal), Some(1 << 30));
    assert_eq!(row.get(GuestField::OwnFree), Some(10_240));
    assert_eq!(row.get(GuestField::OwnSwapFree), Some(u64::MAX));
    assert_eq!(row.get(GuestField::OwnPsiSome), None);
    assert_eq!(row.get(GuestField::OwnPsiFull), Some(7000));
    assert_eq!(row.get(GuestField::OwnStalls), None);
    assert_eq!(row.get(GuestField::OwnWorkingSet), None);
    let sample = wire::Memory { anon_kib: Some(7), active_file_kib: Some(3), ..sample };
    row::put_memory(&mut row, &sample, 1 << 30);
    assert_eq!(row.get(GuestField::OwnWorkingSet), Some(10_240));
}

#[test]
fn the_root_file_system_of_a_guest_is_recorded_as_a_share() {
    let mut row = Row::default();
    let mut used = |total, available| {
        let sample = wire::System {
            root_total_kib: total,
            root_available_kib: available,
            load_1_permille: Some(120),
            ..wire::System::default()
        };
        row::put_system(&mut row, &sample);
        assert_eq!(row.get(GuestField::OwnLoad), Some(120));
        row.get(GuestField::OwnRootUsed)
    };
    assert_eq!(used(Some(4000), Some(1000)), Some(750));
    assert_eq!(used(Some(u64::MAX - 1), Some(0)), Some(1000));
    assert_eq!(used(Some(10), Some(20)), Some(0));
    assert_eq!((used(Some(0), Some(0)), used(Some(1), None)), (None, None));
}

#[test]
fn a_balloons_statistics_are_recorded_as_they_are_and_as_the_daemons() {
    let stats = BalloonStats {
        updated_s: 1_700_000_000,
        total: Some(Bytes::mib(90)),
        free: Some(Bytes::mib(10)),
        available: None,
        caches: Some(Bytes::mib(20)),
        swap_in: Some(Bytes(4096 * 3 + 1)),
        ..BalloonStats::default()
    };
    let mut row = Row::default();
    row::put_balloon(&mut row, &stats, Bytes::mib(96).0);
    let expected = [
        (GuestField::OwnFree, Bytes::mib(10).0),
        (GuestField::OwnAvailable, Bytes::mib(10).0),
        (GuestField::OwnCached, Bytes::mib(20).0),
        (GuestField::OwnSwapIn, 3),
        (GuestField::OwnWorkingSet, Bytes::mib(86).0),
        (GuestField::BalloonTime, 1_700_000_000_000_000_000),
        (GuestField::BalloonTotal, Bytes::mib(90).0),
        (GuestField::BalloonFree, Bytes::mib(10).0),
        (GuestField::BalloonCached, Bytes::mib(20).0),
        (GuestField::BalloonSwapIn, 4096 * 3 + 1),
    ];
    assert_eq!(row.known().collect::<Vec<_>>(), expected, "what was not reported is missing");
}
