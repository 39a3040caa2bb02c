//! Sequences of readings as kernels show them, and some that no kernel should show.

use super::*;

const USER: usize = 0;

/// Returns a reading with only user and idle ticks.
fn stat(all: (i64, i64), cpus: &[(u32, i64, i64)]) -> Stat {
    let ticks = |user, idle| {
        let mut ticks = [0; FIELDS];
        (ticks[USER], ticks[IDLE]) = (user, idle);
        ticks
    };
    let cpus = cpus.iter().map(|(id, user, idle)| (*id, ticks(*user, *idle))).collect();
    Stat { all: ticks(all.0, all.1), cpus }
}

/// Returns the user and idle total after each reading, one second apart.
fn run(readings: &[Stat]) -> Vec<(i64, i64)> {
    let mut clock = CpuClock::default();
    let mut seconds = 1_000.0;
    let mut totals = Vec::new();
    for reading in readings {
        let total = clock.advance(reading, seconds);
        totals.push((total[USER], total[IDLE]));
        seconds += 1.0;
    }
    totals
}

#[test]
fn without_a_plug_the_raw_numbers_are_shown_even_when_they_fall() {
    let raw = [(500, 9000), (560, 9040), (559, 9140), (559, 9139), (9559, 8200), (9559, 99_000)];
    let readings: Vec<_> =
        raw.iter().map(|(user, idle)| stat((*user, *idle), &[(0, *user, *idle)])).collect();
    assert_eq!(run(&readings), raw);
}

#[test]
fn texts_without_any_line_of_a_cpu_are_raw_too() {
    let raw = [(5, 90), (6, 189), (106, 189)];
    let readings: Vec<_> = raw.iter().map(|all| stat(*all, &[])).collect();
    assert_eq!(run(&readings), raw);
}

#[test]
fn unplugged_cpus_sleep_leaves_the_sum_but_not_the_total() {
    // cpu1 has slept 50,000 ticks; its tick counter has counted only 300 of these ticks.
    let readings = [
        stat((2000, 90_000), &[(0, 1500, 40_000), (1, 500, 50_000)]),
        stat((2010, 90_190), &[(0, 1508, 40_092), (1, 502, 50_098)]),
        stat((2025, 40_480), &[(0, 1520, 40_180)]),
        stat((2035, 40_570), &[(0, 1530, 40_270)]),
    ];
    // Only cpu0 counts in the interval of the change: 12 busy ticks and 88 idle ticks.
    assert_eq!(run(&readings), [(2000, 90_000), (2010, 90_190), (2022, 90_278), (2032, 90_368)]);
}

#[test]
fn plugged_cpu_adds_its_work_since_last_seen_and_no_idle_time() {
    let readings = [
        stat((2010, 90_190), &[(0, 1508, 40_092), (1, 502, 50_098)]),
        // cpu1 worked 3 ticks more before it went offline.
        stat((2025, 40_480), &[(0, 1520, 40_180)]),
        // cpu1 is back, works 40 ticks, and its sleep begins at 0.
        stat((2075, 40_600), &[(0, 1530, 40_270), (1, 545, 55)]),
        stat((2175, 40_700), &[(0, 1580, 40_320), (1, 595, 105)]),
    ];
    assert_eq!(run(&readings), [(2010, 90_190), (2022, 90_278), (2075, 90_368), (2175, 90_468)]);
}

#[test]
fn cpu_never_seen_before_adds_nothing_until_its_second_reading() {
    let readings = [
        stat((100, 900), &[(0, 90, 600)]),
        stat((120, 800_000), &[(0, 100, 690), (7, 20, 799_000)]),
        stat((170, 800_140), &[(0, 110, 780), (7, 60, 799_050)]),
    ];
    assert_eq!(run(&readings), [(100, 900), (110, 990), (160, 1130)]);
}

#[test]
fn the_fields_of_a_change_stay_within_the_time_that_passed() {
    let readings = [
        stat((100, 900), &[(0, 50, 500), (3, 50, 400)]),
        // cpu3 went offline, and cpu0's line was read late. One second has 100 ticks and 2 ticks of
        // slack.
        stat((100, 900), &[(0, 950, 499)]),
    ];
    assert_eq!(run(&readings)[1], (202, 900));
}

#[test]
fn a_leap_in_a_change_is_nobodys_work() {
    let readings = [
        stat((100, 900), &[(0, 50, 500), (3, 50, 400)]),
        stat((100, 900), &[(0, 60, 590)]),
        // cpu3's timer started at an arbitrary value.
        stat((407_125_408_613, 990), &[(0, 65, 680), (3, 407_125_408_563, 10)]),
    ];
    assert_eq!(run(&readings), [(100, 900), (110, 990), (115, 1080)]);
}

#[test]
fn cpu_that_left_and_came_back_is_detected_by_its_leap() {
    let readings = [
        stat((200, 60_000), &[(0, 100, 30_000), (1, 100, 30_000)]),
        stat((407_125_408_713, 60_170), &[(0, 110, 30_090), (1, 407_125_408_603, 30_080)]),
        stat((407_125_408_733, 60_350), &[(0, 120, 30_180), (1, 407_125_408_613, 30_170)]),
    ];
    assert_eq!(run(&readings), [(200, 60_000), (210, 60_170), (230, 60_350)]);
}

#[test]
fn the_numbers_of_cpus_need_not_be_contiguous() {
    let readings = [
        stat((30, 300), &[(0, 10, 100), (4, 10, 100), (9, 10, 100)]),
        stat((33, 310), &[(0, 11, 190), (9, 12, 191)]),
        stat((36, 400), &[(2, 7, 7), (4, 15, 3), (9, 13, 280)]),
    ];
    // In the second reading cpu0 and cpu9 count. In the third reading cpu9 counts, and cpu4's work
    // since cpu4 was last seen.
    assert_eq!(run(&readings), [(30, 300), (33, 481), (39, 570)]);
}

#[test]
fn cpu_that_left_and_came_back_is_detected_by_its_fall() {
    let readings = [
        stat((200, 60_000), &[(0, 100, 30_000), (1, 100, 30_000)]),
        stat((220, 30_130), &[(0, 110, 30_090), (1, 110, 40)]),
        stat((240, 30_310), &[(0, 120, 30_180), (1, 120, 130)]),
    ];
    // cpu1's idle time of the second interval is lost; no field falls.
    assert_eq!(run(&readings), [(200, 60_000), (220, 60_090), (240, 60_270)]);
}

#[test]
fn a_jump_of_the_sum_alone_is_held_back() {
    // Another CPU that is offline in both readings had its counter reset.
    let readings =
        [stat((200, 60_000), &[(0, 100, 30_000)]), stat((210, 58_000), &[(0, 110, 30_090)])];
    assert_eq!(run(&readings), [(200, 60_000), (210, 60_090)]);
}

#[test]
fn sum_one_reading_late_does_not_spoil_the_next_interval() {
    let readings = [
        stat((200, 60_000), &[(0, 100, 30_000), (1, 100, 30_000)]),
        // cpu1 went offline between the sum and the lines, so the sum still contains its idle time.
        stat((210, 60_180), &[(0, 105, 30_095)]),
        // cpu1 leaves the sum only now, while the lines stay the same.
        stat((220, 30_500), &[(0, 115, 30_185)]),
        stat((230, 30_590), &[(0, 125, 30_275)]),
    ];
    assert_eq!(run(&readings), [(200, 60_000), (205, 60_095), (215, 60_185), (225, 60_275)]);
}

#[test]
fn a_late_sum_that_jumps_forward_is_held_back_too() {
    let readings = [
        stat((200, 30_300), &[(0, 100, 30_000)]),
        stat((210, 30_390), &[(0, 110, 30_090), (1, 5, 30_000)]),
        stat((220, 60_390), &[(0, 115, 30_180), (1, 10, 30_090)]),
    ];
    assert_eq!(run(&readings), [(200, 30_300), (210, 30_390), (220, 30_570)]);
}

#[test]
fn wall_clock_set_back_or_not_a_number_adds_nothing() {
    for second in [-5_000.0, f64::NAN, f64::NEG_INFINITY] {
        let mut clock = CpuClock::default();
        clock.advance(&stat((10, 10), &[(0, 5, 5), (1, 5, 5)]), 100.0);
        let total = *clock.advance(&stat((90, 90), &[(0, 80, 80)]), second);
        assert_eq!((total[USER], total[IDLE]), (12, 12), "{second}");
    }
}

#[test]
fn numbers_at_their_limits_do_not_overflow() {
    let extremes = [0, i64::MAX];
    let mut clock = CpuClock::default();
    let mut seconds = f64::MIN;
    for a in extremes {
        for b in extremes {
            clock.advance(&stat((a, b), &[(0, b, a), (1, a, b)]), seconds);
            clock.advance(&stat((b, b), &[(1, a, a)]), -seconds);
            seconds = f64::INFINITY;
        }
    }
    assert!(clock.total.iter().all(|ticks| *ticks >= 0), "{clock:?}");
}
