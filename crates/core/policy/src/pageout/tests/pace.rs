//! The time of the next page-out.

use super::*;

#[test]
fn next_step_is_due_soon_until_no_guest_is_left() {
    let mut lever = PageOut::default();
    let guests = [sleeper(1, 20), sleeper(2, 30)];
    assert!(!lever.has_more(), "no guest is known");
    for (key, at_ms) in [(2, 0), (1, 2_000)] {
        assert_eq!(lever.step(&CONFIG, &host(), &guests, at_ms), [Order::Take(Key(key))]);
        assert!(lever.has_more(), "{key} is being paged out");
        lever.taken(Key(key), &taken(20, 18, 6), at_ms + 1_000);
        assert_eq!(lever.step(&CONFIG, &host(), &guests, at_ms + 1_100), []);
        assert!(lever.has_more(), "the pause after {key} is not over");
    }
    let full = HostSample { swap_full_permille: Some(800), ..host() };
    let mut stopped = lever.clone();
    stopped.step(&CONFIG, &full, &guests, 9_000);
    assert!(!stopped.has_more(), "swap is full");
    lever.step(&CONFIG, &host(), &guests, 9_000);
    assert!(!lever.has_more(), "all guests are paged out");
}

#[test]
fn page_out_waits_for_a_guest_at_work_unless_the_host_is_short() {
    let busy = GuestSample { asleep_ms: None, busy_percent: 50, ..sleeper(2, 30) };
    let guests = [sleeper(1, 30), busy];
    let short = HostSample { lack: Bytes::mib(1), ..host() };
    let mut lever = PageOut::default();
    for now_ms in [0, 1_000, YIELD_MS - 1] {
        assert_eq!(lever.step(&CONFIG, &host(), &guests, now_ms), [], "{now_ms}");
    }
    let calm = [sleeper(1, 30), GuestSample { busy_percent: 49, ..busy }];
    let parked = [GuestSample { asleep_ms: Some(u64::MAX), ..sleeper(1, 30) }, busy];
    for (host, guests, now_ms) in [
        (host(), guests, YIELD_MS),
        (short, guests, 2_000),
        (host(), calm, 2_000),
        (host(), parked, 2_000),
    ] {
        let orders = lever.clone().step(&CONFIG, &host, &guests, now_ms);
        assert_eq!(orders, [Order::Take(Key(1))], "{host:?} {guests:?}");
    }
}
