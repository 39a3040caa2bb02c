mod pace;

use super::*;

const CONFIG: Config =
    Config { after_ms: 30_000, swap_max_permille: 800, pressure_max: 10, takes_running: false };

fn host() -> HostSample {
    HostSample {
        swap_total: Some(Bytes::mib(4096)),
        swap_full_permille: Some(100),
        pressure: Some(0),
        lack: Bytes::ZERO,
    }
}

/// Returns a guest that has slept for long, with this much memory.
fn sleeper(key: u64, held_mib: u64) -> GuestSample {
    GuestSample {
        key: Key(key),
        asleep_ms: Some(40_000),
        busy_percent: 0,
        held: Some(Bytes::mib(held_mib)),
        is_in_need: false,
        is_moving: false,
        is_excepted: false,
    }
}

fn held(own_mib: u64, swapped_mib: u64) -> Held {
    Held { own: Bytes::mib(own_mib), swapped: Bytes::mib(swapped_mib) }
}

/// Returns the result of a page-out from `before_mib` to 2 MiB, with `stored` MiB compressed to
/// `takes` MiB.
fn taken(before_mib: u64, stored: u64, takes: u64) -> Taken {
    Taken {
        before: held(before_mib, 0),
        after: held(2, before_mib - 2),
        stored: Some((Bytes::mib(stored), Bytes::mib(takes))),
        took_ms: 60,
        is_cut: false,
        next: None,
    }
}

/// Returns a lever with a guest of 30 MiB that was paged out at time 0, and has a measured working
/// set of 8 MiB.
fn taken_once() -> PageOut {
    let mut lever = PageOut::default();
    assert_eq!(lever.step(&CONFIG, &host(), &[sleeper(1, 30)], 0), [Order::Take(Key(1))]);
    assert_eq!(lever.taken(Key(1), &taken(30, 28, 9), 0), [Finding::Gained(Bytes::mib(28))]);
    assert_eq!(lever.step(&CONFIG, &host(), &[sleeper(1, 30)], LOOK_MS), [Order::Look(Key(1))]);
    let set = Finding::WorkingSet { size: Bytes::mib(8), came_back: Bytes::mib(6) };
    assert_eq!(lever.seen(Key(1), held(8, 22)), Some(set));
    assert_eq!(lever.working_set(Key(1)), Some(Bytes::mib(8)));
    lever
}

#[test]
fn largest_sleeper_is_taken_first_and_the_next_one_waits() {
    let mut lever = PageOut::default();
    let guests = [sleeper(1, 20), sleeper(2, 30), sleeper(3, 3)];
    assert_eq!(lever.step(&CONFIG, &host(), &guests, 0), [Order::Take(Key(2))]);
    assert_eq!(lever.taking(), Some(Key(2)));
    assert_eq!(lever.step(&CONFIG, &host(), &guests, 250), [], "one at a time");
    lever.taken(Key(2), &taken(30, 28, 9), 1000);
    assert_eq!(lever.step(&CONFIG, &host(), &guests, 1179), [], "a quarter of a core");
    assert_eq!(lever.step(&CONFIG, &host(), &guests, 1180), [Order::Take(Key(1))]);
    lever.taken(Key(1), &taken(20, 18, 6), 2000);
    assert_eq!(lever.step(&CONFIG, &host(), &guests, 9000), [], "3 MiB are not worth a turn");
}

#[test]
fn running_needy_or_excepted_guest_is_not_taken() {
    let mut lever = PageOut::default();
    let guests = [
        GuestSample { asleep_ms: None, ..sleeper(1, 30) },
        GuestSample { asleep_ms: Some(29_999), ..sleeper(2, 30) },
        GuestSample { is_in_need: true, ..sleeper(3, 30) },
        GuestSample { is_excepted: true, ..sleeper(4, 30) },
        GuestSample { held: None, ..sleeper(5, 30) },
    ];
    assert_eq!(lever.step(&CONFIG, &host(), &guests, 0), []);
    let standing = guests.map(|guest| lever.standing(&CONFIG, &guest, false, 0).name());
    assert_eq!(standing, ["awake", "waits", "in-need", "excepted", "small"]);
}

#[test]
fn an_alarm_is_the_begin_of_a_wait_and_not_each_step_of_it() {
    let mut lever = PageOut::default();
    for (waited, alarms) in [(0, 0), (11, 1), (40, 1), (10, 1), (11, 2)] {
        lever.step(&CONFIG, &HostSample { pressure: Some(waited), ..host() }, &[], 0);
        assert_eq!(lever.alarms(), alarms, "{waited}");
    }
}

#[test]
fn the_host_must_have_room_and_nobody_may_wait() {
    let hosts = [
        (HostSample { swap_total: Some(Bytes::ZERO), ..host() }, Lever::NoSwap),
        (HostSample { swap_total: None, ..host() }, Lever::Unknown),
        (HostSample { swap_full_permille: Some(800), ..host() }, Lever::SwapFull),
        (HostSample { pressure: Some(11), ..host() }, Lever::Pressure),
        (HostSample { pressure: Some(10), ..host() }, Lever::Ready),
        (HostSample { pressure: None, ..host() }, Lever::Ready),
    ];
    for (host, expected) in hosts {
        let mut lever = PageOut::default();
        let orders = lever.step(&CONFIG, &host, &[sleeper(1, 30)], 0);
        assert_eq!(
            (lever.lever(), orders.len()),
            (expected, usize::from(expected.name() == "ready"))
        );
    }
}

#[test]
fn a_sleeper_is_taken_once() {
    let mut lever = taken_once();
    for minute in 2..600 {
        let orders = lever.step(&CONFIG, &host(), &[sleeper(1, 8)], minute * LOOK_MS);
        assert_eq!(orders, [Order::Look(Key(1))]);
        assert_eq!(lever.seen(Key(1), held(8, 22)), None);
    }
    assert_eq!(lever.standing(&CONFIG, &sleeper(1, 8), false, 0), Standing::Out);
}

#[test]
fn woken_guest_rests_as_long_as_returned_memory_is_worth() {
    // 0.2 % of 8 MiB per minute are 16.4 KiB. 10 MiB of refaults therefore mean a rest of 625
    // minutes.
    let mut lever = taken_once();
    let back = lever.seen(Key(1), held(18, 12));
    assert_eq!(back, Some(Finding::Promoted(Bytes::mib(10))));
    let standing = |at_ms| lever.standing(&CONFIG, &sleeper(1, 18), false, at_ms);
    assert_eq!(standing(624 * 60_000), Standing::Resting);
    assert_eq!(standing(626 * 60_000), Standing::Ready);
    // 4 MiB of refaults mean a rest of 250 minutes.
    let mut lever = taken_once();
    lever.seen(Key(1), held(12, 18));
    let standing = |at_ms| lever.standing(&CONFIG, &sleeper(1, 12), false, at_ms);
    assert_eq!(standing(249 * 60_000), Standing::Resting);
    assert_eq!(standing(251 * 60_000), Standing::Ready);
}

/// A guest that faults in 5 MiB each time stays within its allowed part per minute, over ten days.
#[test]
fn returned_memory_stays_within_its_part_of_the_working_set() {
    let mut lever = taken_once();
    let (mut own, mut swapped, mut promoted) = (8, 22, 0_u64);
    let minutes = 10 * 24 * 60;
    for minute in 2..minutes {
        let now_ms = minute * LOOK_MS;
        for order in lever.step(&CONFIG, &host(), &[sleeper(1, own)], now_ms) {
            match order {
                Order::Look(key) => {
                    // The guest wakes once an hour, and then touches 5 MiB if that memory is
                    // swapped out.
                    if minute % 60 == 0 && swapped >= 22 {
                        (own, swapped, promoted) = (own + 5, swapped - 5, promoted + 5);
                    }
                    lever.seen(key, held(own, swapped));
                }
                Order::Take(key) => {
                    let before = held(own, swapped);
                    (own, swapped) = (8, 22);
                    let taken = Taken { before, after: held(8, 22), ..Taken::default() };
                    lever.taken(key, &taken, now_ms);
                }
                Order::TakePart(..) => panic!("{order:?}"),
            }
        }
    }
    let a_minute = Bytes(Bytes::mib(promoted).0 / minutes);
    assert!(promoted > 5, "the guest was taken again");
    assert!(a_minute <= Bytes::mib(8).permille(PROMOTION_PERMILLE), "{a_minute:?}");
}

#[test]
fn a_short_host_takes_the_woken_sooner_and_each_time_later() {
    let mut lever = taken_once();
    lever.seen(Key(1), held(18, 12));
    let standing = |lever: &PageOut, at_ms| lever.standing(&CONFIG, &sleeper(1, 18), true, at_ms);
    assert_eq!(standing(&lever, 29_999), Standing::Resting);
    assert_eq!(standing(&lever, 30_000), Standing::Ready);
    let short = HostSample { lack: Bytes::mib(1024), ..host() };
    let orders = lever.step(&CONFIG, &short, &[sleeper(1, 18)], 2 * LOOK_MS);
    assert_eq!(orders, [Order::Look(Key(1)), Order::Take(Key(1))]);
    lever.taken(Key(1), &taken(18, 16, 5), 2 * LOOK_MS);
    lever.seen(Key(1), held(8, 10));
    lever.seen(Key(1), held(18, 0));
    assert_eq!(standing(&lever, 2 * LOOK_MS + 59_999), Standing::Resting, "twice as long");
    assert_eq!(standing(&lever, 2 * LOOK_MS + 60_000), Standing::Ready);
}

#[test]
fn incompressible_guest_is_left_alone_after_one_try() {
    let mut lever = PageOut::default();
    lever.step(&CONFIG, &host(), &[sleeper(1, 30)], 0);
    let found = lever.taken(Key(1), &taken(30, 28, 24), 0);
    assert_eq!(found[1], Finding::Incompressible { ratio_permille: 1166 });
    for minute in 1..100 {
        assert_eq!(lever.step(&CONFIG, &host(), &[sleeper(1, 30)], minute * LOOK_MS), []);
    }
    // A rebooted guest counts as another guest.
    lever.forget(Key(1));
    let orders = lever.step(&CONFIG, &host(), &[sleeper(1, 30)], 100 * LOOK_MS);
    assert_eq!(orders, [Order::Take(Key(1))]);
    assert!(!has_failed(Bytes::mib(31), Bytes::mib(31)), "too little to tell");
    assert!(has_failed(Bytes::mib(32), Bytes::mib(22)));
    assert!(!has_failed(Bytes::mib(32), Bytes::mib(10)));
}

#[test]
fn a_ratio_that_is_not_the_guests_own_is_none() {
    let mut lever = PageOut::default();
    lever.step(&CONFIG, &host(), &[sleeper(1, 30)], 0);
    // Another process has swapped out a hundred MiB at the same time.
    let found = lever.taken(Key(1), &taken(30, 128, 120), 0);
    assert_eq!(found, [Finding::Gained(Bytes::mib(28))]);
}

#[test]
fn memory_that_cannot_be_taken_is_tried_once() {
    let mut lever = PageOut::default();
    lever.step(&CONFIG, &host(), &[sleeper(1, 30)], 0);
    let locked = Taken { before: held(30, 0), after: held(29, 1), ..Taken::default() };
    let found = lever.taken(Key(1), &locked, 0);
    assert_eq!(found[1], Finding::Barren(Bytes::mib(1)));
    assert_eq!(lever.step(&CONFIG, &host(), &[sleeper(1, 30)], LOOK_MS), []);
}

#[test]
fn cut_taking_is_tried_again_after_a_rest_that_doubles() {
    let (mut lever, mut now_ms) = (PageOut::default(), 0);
    for rest_ms in [30_000, 60_000, 120_000] {
        assert_eq!(lever.step(&CONFIG, &host(), &[sleeper(1, 30)], now_ms), [Order::Take(Key(1))]);
        // A page-out that ended early counts like a page-out that was not begun.
        match rest_ms {
            60_000 => lever.failed(Key(1), now_ms),
            _ => _ = lever.taken(Key(1), &Taken { is_cut: true, ..taken(30, 28, 9) }, now_ms),
        }
        now_ms += rest_ms;
        assert_eq!(lever.step(&CONFIG, &host(), &[sleeper(1, 30)], now_ms - 1), []);
    }
    lever.step(&CONFIG, &host(), &[sleeper(1, 30)], now_ms);
    lever.taken(Key(1), &taken(30, 28, 9), now_ms);
    lever.failed(Key(1), now_ms);
    let look = lever.step(&CONFIG, &host(), &[sleeper(1, 30)], now_ms + LOOK_MS);
    assert_eq!(look, [Order::Look(Key(1))], "a look that was lost changes nothing");
}

#[test]
fn guest_that_brings_half_back_in_a_minute_did_not_sleep() {
    let mut lever = PageOut::default();
    lever.step(&CONFIG, &host(), &[sleeper(1, 30)], 0);
    lever.taken(Key(1), &taken(30, 28, 9), 0);
    lever.seen(Key(1), held(20, 10));
    lever.seen(Key(1), held(30, 0));
    // 18 MiB and then 10 MiB became resident again, and the working set is 20 MiB. The rest is
    // therefore 700 minutes.
    let standing = |at_ms| lever.standing(&CONFIG, &sleeper(1, 30), false, at_ms);
    assert_eq!(standing(699 * 60_000), Standing::Resting);
}

const RUNNING: Config = Config { takes_running: true, ..CONFIG };

fn short() -> HostSample {
    HostSample { lack: Bytes::mib(1024), ..host() }
}

/// Returns a running guest with this much memory.
fn runner(key: u64, held_mib: u64) -> GuestSample {
    GuestSample { asleep_ms: None, ..sleeper(key, held_mib) }
}

fn part(from_mib: u64, most_mib: u64) -> Part {
    Part { from: Bytes::mib(from_mib).0, most: Bytes::mib(most_mib) }
}

#[test]
fn running_guest_gives_behind_sleepers_on_a_short_host() {
    let guests = [runner(1, 200), sleeper(2, 20), runner(3, 100)];
    let mut lever = PageOut::default();
    assert_eq!(lever.step(&RUNNING, &short(), &guests, 0), [Order::Take(Key(2))]);
    lever.taken(Key(2), &taken(20, 18, 6), 0);
    assert_eq!(lever.step(&CONFIG, &short(), &guests, 1000), [], "only sleepers are taken");
    assert_eq!(lever.step(&RUNNING, &host(), &guests, 1000), [], "the host is not short");
    let order = Order::TakePart(Key(1), part(0, 256));
    assert_eq!(lever.step(&RUNNING, &short(), &guests, 1000), [order]);
    assert!(lever.ran(Key(1)) && !lever.ran(Key(2)));
    let may = |guest: GuestSample, is_short| lever.may_go_on(&RUNNING, &guest, is_short);
    assert!(may(runner(1, 200), true) && may(sleeper(1, 200), true));
    assert!(!may(runner(1, 200), false), "the host is short no longer");
    assert!(!may(GuestSample { is_in_need: true, ..runner(1, 200) }, true));
    assert!(!lever.may_go_on(&CONFIG, &runner(1, 200), true), "the settings have changed");
    assert!(!may(runner(2, 20), true), "a sleeper that has woken was not asked for a part");
    assert!(may(sleeper(2, 20), false));
}

#[test]
fn less_busy_running_guest_gives_what_the_host_lacks() {
    let busy = |key, held_mib, busy_percent| GuestSample { busy_percent, ..runner(key, held_mib) };
    let guests = [busy(1, 340, 15), busy(2, 180, 4), busy(3, 30, 2)];
    // Compressed memory still takes a third of its former size. A page-out of less than 32 MiB is
    // not worth its cost.
    for (lack_mib, most_mib) in [(49, 73), (3, 32), (1024, 256)] {
        let host = HostSample { lack: Bytes::mib(lack_mib), ..host() };
        let orders = PageOut::default().step(&RUNNING, &host, &guests, 0);
        let [Order::TakePart(Key(2), part)] = orders[..] else { panic!("{orders:?}") };
        assert_eq!((part.from, part.most.0 >> 20), (0, most_mib), "{lack_mib}");
    }
    // The few interrupts of a sleeping guest are ignored.
    let sleepers = [GuestSample { busy_percent: 1, ..sleeper(1, 340) }, sleeper(2, 180)];
    let orders = PageOut::default().step(&RUNNING, &short(), &sleepers, 0);
    assert_eq!(orders, [Order::Take(Key(1))]);
}

#[test]
fn running_guest_in_need_is_not_taken() {
    let guests = [
        GuestSample { is_in_need: true, ..runner(1, 200) },
        GuestSample { is_excepted: true, ..runner(2, 200) },
        GuestSample { held: None, ..runner(3, 200) },
    ];
    let mut lever = PageOut::default();
    assert_eq!(lever.step(&RUNNING, &short(), &guests, 0), []);
}

#[test]
fn large_running_guest_is_taken_in_parts_while_little_returns() {
    let mut lever = PageOut::default();
    let guest = [runner(1, 8192)];
    let order = Order::TakePart(Key(1), part(0, 512));
    assert_eq!(lever.step(&RUNNING, &short(), &guest, 0), [order], "a sixteenth");
    let next = |at_mib: u64| Some(Bytes::mib(at_mib).0);
    let first = Taken { before: held(8192, 0), after: held(7672, 520), ..taken(8192, 520, 150) };
    let found = lever.taken(Key(1), &Taken { next: next(700), ..first }, 0);
    assert_eq!(found, [Finding::Gained(Bytes::mib(520))]);
    assert_eq!(lever.step(&RUNNING, &short(), &guest, LOOK_PART_MS - 1), [], "still measuring");
    assert_eq!(lever.step(&RUNNING, &short(), &guest, LOOK_PART_MS), [Order::Look(Key(1))]);
    let seen = lever.seen(Key(1), held(7700, 492));
    assert_eq!(seen, Some(Finding::CameBack(Bytes::mib(28))));
    assert_eq!(lever.working_set(Key(1)), None, "the rest is unknown");
    // The next part begins behind the first part. Most of it becomes resident again.
    let order = Order::TakePart(Key(1), part(700, 512));
    assert_eq!(lever.step(&RUNNING, &short(), &guest, LOOK_PART_MS + 250), [order]);
    let second = Taken { before: held(7700, 492), after: held(7180, 1012), ..first };
    lever.taken(Key(1), &Taken { next: next(1400), ..second }, 20_000);
    lever.step(&RUNNING, &short(), &guest, 20_000 + LOOK_PART_MS);
    let seen = lever.seen(Key(1), held(7500, 692));
    let set = Finding::WorkingSet { size: Bytes::mib(7500), came_back: Bytes::mib(320) };
    assert_eq!(seen, Some(set), "the rest is in use");
    let standing = lever.standing(&RUNNING, &guest[0], true, 60_000);
    assert_eq!(standing, Standing::Out, "no other part is tried");
}

#[test]
fn last_part_that_gives_nothing_does_not_exclude_the_guest() {
    let mut lever = PageOut::default();
    let guest = [runner(1, 300)];
    lever.step(&RUNNING, &short(), &guest, 0);
    let first = Taken { before: held(300, 0), after: held(44, 256), ..taken(300, 256, 70) };
    lever.taken(Key(1), &Taken { next: Some(1), ..first }, 0);
    lever.step(&RUNNING, &short(), &guest, LOOK_PART_MS);
    lever.seen(Key(1), held(50, 250));
    let guest = [runner(1, 50)];
    lever.step(&RUNNING, &short(), &guest, LOOK_PART_MS + 250);
    let last = Taken { before: held(50, 250), after: held(49, 251), ..Taken::default() };
    let found = lever.taken(Key(1), &last, LOOK_PART_MS + 300);
    assert_eq!(found, [Finding::Gained(Bytes::mib(1))]);
    assert_eq!(lever.standing(&RUNNING, &guest[0], true, 20_000), Standing::Measured);
}

#[test]
fn parts_are_one_taking_and_a_cut_one_begins_in_front() {
    let mut lever = PageOut::default();
    let first = Taken { before: held(300, 0), after: held(44, 256), ..taken(300, 256, 70) };
    let last = Taken { before: held(50, 250), after: held(10, 290), ..taken(50, 40, 10) };
    lever.step(&RUNNING, &short(), &[runner(1, 300)], 0);
    lever.taken(Key(1), &Taken { next: Some(1), ..first }, 0);
    lever.step(&RUNNING, &short(), &[runner(1, 44)], LOOK_PART_MS);
    lever.seen(Key(1), held(50, 250));
    lever.step(&RUNNING, &short(), &[runner(1, 50)], 20_000);
    lever.taken(Key(1), &last, 20_000);
    lever.step(&RUNNING, &short(), &[runner(1, 10)], 20_000 + LOOK_MS);
    lever.seen(Key(1), held(20, 280));
    assert_eq!(lever.working_set(Key(1)), Some(Bytes::mib(20)));
    // Much becomes resident again. The guest's pause starts at its last part, and is as long as
    // after a first page-out.
    lever.seen(Key(1), held(290, 10));
    let standing = |at_ms| lever.standing(&RUNNING, &runner(1, 290), true, at_ms);
    assert_eq!(standing(49_999), Standing::Resting);
    assert_eq!(standing(50_000), Standing::Ready);

    // The second part of another guest cannot be paged out. Page-out is tried again from the
    // beginning.
    let mut lever = PageOut::default();
    lever.step(&RUNNING, &short(), &[runner(1, 300)], 0);
    lever.taken(Key(1), &Taken { next: Some(1), ..first }, 0);
    lever.step(&RUNNING, &short(), &[runner(1, 44)], LOOK_PART_MS);
    lever.seen(Key(1), held(50, 250));
    lever.step(&RUNNING, &short(), &[runner(1, 50)], 20_000);
    lever.failed(Key(1), 20_000);
    assert_eq!(lever.step(&RUNNING, &short(), &[runner(1, 50)], 49_999), []);
    let order = Order::TakePart(Key(1), part(0, 256));
    assert_eq!(lever.step(&RUNNING, &short(), &[runner(1, 50)], 50_000), [order]);
}

#[test]
fn expected_gain_is_half_of_takeable_memory_beyond_needs() {
    let mut lever = PageOut::default();
    let guests =
        [runner(1, 200), sleeper(2, 20), GuestSample { is_in_need: true, ..runner(3, 100) }];
    let expected = |lever: &PageOut, config| lever.expected_gain(config, &guests, 0).as_mib();
    assert_eq!(expected(&lever, &RUNNING), 0, "nothing is known of the host's swap");
    let order = lever.step(&RUNNING, &short(), &guests, 0);
    assert_eq!(order, [Order::Take(Key(2))]);
    assert_eq!(expected(&lever, &RUNNING), 110);
    assert_eq!(expected(&lever, &CONFIG), 10, "of sleepers alone");
    lever.taken(Key(2), &taken(20, 18, 6), 0);
    assert_eq!(expected(&lever, &RUNNING), 100, "taken memory is no gain");
    let moving = guests.map(|guest| GuestSample { is_moving: true, ..guest });
    assert_eq!(lever.expected_gain(&RUNNING, &moving, 0).as_mib(), 100, "balloons arrive");
    // The swap has 4 GiB, of which 80 % may be used.
    let nearly = HostSample { swap_full_permille: Some(770), ..short() };
    lever.step(&RUNNING, &nearly, &guests, 0);
    assert_eq!(expected(&lever, &RUNNING), 4096 * 30 / 1000 / 2);
    let full = HostSample { swap_full_permille: Some(900), ..short() };
    lever.step(&RUNNING, &full, &guests, 0);
    assert_eq!(expected(&lever, &RUNNING), 0);
}

#[test]
fn guest_between_parts_is_expected_to_give_but_not_in_a_pause() {
    let mut lever = PageOut::default();
    lever.step(&RUNNING, &short(), &[runner(1, 300)], 0);
    let part = Taken { before: held(300, 0), after: held(44, 256), ..taken(300, 256, 70) };
    lever.taken(Key(1), &Taken { next: Some(1), ..part }, 0);
    let expected = |lever: &PageOut, now_ms| {
        lever.expected_gain(&RUNNING, &[runner(1, 144), runner(2, 60)], now_ms).as_mib()
    };
    lever.step(&RUNNING, &short(), &[runner(1, 144)], 100);
    assert_eq!(expected(&lever, 100), 102);
    let mut lever = PageOut::default();
    lever.step(&RUNNING, &short(), &[runner(1, 300)], 0);
    lever.taken(Key(1), &Taken { took_ms: 80_000, next: Some(1), ..part }, 80_000);
    assert_eq!(expected(&lever, 80_000), 0);
    assert_eq!(expected(&lever, 155_000), 102);
}

#[test]
fn a_pause_is_shorter_from_when_the_host_is_short() {
    let mut lever = PageOut::default();
    let guests = [sleeper(1, 30), sleeper(2, 20)];
    lever.step(&CONFIG, &host(), &guests, 0);
    lever.taken(Key(1), &Taken { took_ms: 10_000, ..taken(30, 28, 9) }, 10_000);
    assert_eq!(lever.step(&CONFIG, &host(), &guests, 20_000), []);
    assert_eq!(lever.step(&CONFIG, &short(), &guests, 20_000), [Order::Take(Key(2))]);
}

#[test]
fn part_ended_by_a_relieved_host_does_not_count_against_guest() {
    let mut lever = PageOut::default();
    lever.step(&RUNNING, &short(), &[runner(1, 300)], 0);
    assert_eq!(lever.step(&RUNNING, &host(), &[runner(1, 200)], 250), []);
    lever.taken(Key(1), &Taken { is_cut: true, ..taken(300, 100, 30) }, 300);
    let order = Order::TakePart(Key(1), part(0, 256));
    assert_eq!(lever.step(&RUNNING, &short(), &[runner(1, 200)], 500), [order]);
}
