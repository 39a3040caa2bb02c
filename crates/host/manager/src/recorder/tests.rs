use super::{put_system, put_working_set};
use crate::guest::sample::of_daemon;
use base::Bytes;
use hypervisor::balloon_row;
use model::{GuestField, Row};

#[test]
fn guest_reports_are_capped_at_the_guests_maximum() {
    let sample = wire::Memory {
        total_kib: Some(u64::MAX - 1),
        free_kib: Some(10),
        swap_free_kib: Some(u64::MAX - 1),
        psi_some_us: Some(u64::MAX - 1),
        psi_full_us: Some(7),
        ..wire::Memory::default()
    };
    let row = of_daemon(&sample, Bytes(1 << 30));
    assert_eq!(row.get(GuestField::OwnTotal), Some(1 << 30));
    assert_eq!(row.get(GuestField::OwnFree), Some(10_240));
    assert_eq!(row.get(GuestField::OwnSwapFree), Some(u64::MAX));
    assert_eq!(row.get(GuestField::OwnPsiSome), None);
    assert_eq!(row.get(GuestField::OwnPsiFull), Some(7000));
    assert_eq!(row.get(GuestField::OwnStalls), None);
}

#[test]
fn working_set_is_the_same_measure_for_balloon_and_daemon() {
    let values = [(GuestField::BalloonAvailable, Some(Bytes::mib(60).0))];
    let mut by_balloon = balloon_row(1, Bytes::mib(96), values);
    let available_kib = Some(60 << 10);
    let sample = wire::Memory { available_kib, anon_kib: Some(7), ..wire::Memory::default() };
    let mut by_daemon = of_daemon(&sample, Bytes(1 << 30));
    let working = |row: &mut Row<GuestField>| {
        row.set(GuestField::Actual, Some(Bytes::mib(96).0));
        put_working_set(row);
        row.get(GuestField::OwnWorkingSet)
    };
    let both = [working(&mut by_balloon), working(&mut by_daemon)];
    assert_eq!(both, [None, None], "the active cache is unknown");
    for row in [&mut by_balloon, &mut by_daemon] {
        row.set(GuestField::OwnActiveFile, Some(Bytes::mib(5).0));
        assert_eq!(working(row), Some(Bytes::mib(41).0));
    }
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
        put_system(&mut row, &sample);
        assert_eq!(row.get(GuestField::OwnLoad), Some(120));
        row.get(GuestField::OwnRootUsed)
    };
    assert_eq!(used(Some(4000), Some(1000)), Some(750));
    assert_eq!(used(Some(u64::MAX - 1), Some(0)), Some(1000));
    assert_eq!(used(Some(10), Some(20)), Some(0));
    assert_eq!((used(Some(0), Some(0)), used(Some(1), None)), (None, None));
}
