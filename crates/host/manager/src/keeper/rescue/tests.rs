use super::*;

fn mib(mib: u64) -> Bytes {
    Bytes::mib(mib)
}

/// Returns a rescue of guests of 1000 MiB, all of which are reached. `missing` is the memory that
/// each guest lacks, in MiB.
fn rescue(missing: &[u64], reserve: u64) -> Rescue {
    let guests: Vec<Held> =
        (1..).zip(missing).map(|(id, missing)| held(id, 1000, 1000 - missing, *missing)).collect();
    let mut rescue = Rescue::new(guests.iter(), mib(reserve), RESCUE_MS, 0);
    for (id, missing) in (1..).zip(missing) {
        rescue.reached(id, mib(1000 - missing));
    }
    rescue
}

#[test]
fn smallest_gaps_are_filled_first_when_all_fits() {
    let mut rescue = rescue(&[300, 100, 0], 50);
    let targets = rescue.step(Some(mib(450)), 0);
    assert_eq!(targets, [(3, mib(1000)), (2, mib(1000)), (1, mib(1000))]);
    for id in 1..=3 {
        assert!(!rescue.is_over(0));
        rescue.taken(id, mib(1000));
    }
    assert!(rescue.is_over(0));
    assert!(rescue.outcomes().iter().all(|(_, outcome)| *outcome == Outcome::Restored));
}

#[test]
fn rescue_has_its_time_again_after_a_pause_of_the_machine() {
    let mut rescue = rescue(&[300], 0);
    for second in 1..=29 {
        rescue.looks(second * 1_000);
        assert!(!rescue.is_late(second * 1_000));
    }
    rescue.looks(1_000_000);
    assert!(!rescue.is_late(1_029_999) && rescue.is_late(1_030_000));
}

#[test]
fn rescue_ends_when_each_look_is_late() {
    let mut rescue = rescue(&[300], 0);
    let is_late = |look: &u64| {
        rescue.looks(look * 6_000);
        rescue.is_late(look * 6_000)
    };
    assert_eq!((1..1_000).find(is_late), Some(51), "a host that thrashes");
}

#[test]
fn short_memory_is_divided_and_more_follows_when_it_is_free() {
    let mut rescue = rescue(&[300, 100], 50);
    assert_eq!(rescue.step(Some(mib(250)), 0), [(2, mib(950)), (1, mib(850))]);
    rescue.taken(1, mib(850));
    rescue.taken(2, mib(950));
    // No granted memory is in use yet, so the same free memory is not granted again.
    assert!(rescue.step(Some(mib(250)), 1000).is_empty());
    // All granted memory is in use.
    assert!(rescue.step(Some(mib(50)), 2000).is_empty());
    // 40 MiB more have become free.
    assert_eq!(rescue.step(Some(mib(90)), 3000), [(2, mib(960)), (1, mib(880))]);
    rescue.taken(1, mib(880));
    rescue.taken(2, mib(960));
    assert!(rescue.is_over(RESCUE_MS));
    let missing = |mib| Outcome::Missing { bytes: Bytes::mib(mib), refusal: None };
    assert_eq!(rescue.outcomes(), [("g1", missing(120)), ("g2", missing(40))]);
}

/// In all cases the granted memory is at most the free memory above the reserve.
#[test]
fn never_more_than_is_free_is_handed_out() {
    let mut rescue = rescue(&[900, 500, 10, 250], 100);
    let mut used = 0;
    let mut given = 0;
    for second in 0..30 {
        // The host has 600 MiB free. Guests start to use their memory in small steps each second.
        used = (used + second * 7).min(given);
        for (id, target) in rescue.step(Some(mib(600 - used)), second * 1000) {
            if (id + second) % 3 == 0 {
                rescue.refused(id, "not now");
            } else {
                rescue.taken(id, target);
            }
        }
        let levels: Bytes = rescue.patients.values().map(|patient| patient.level).sum();
        given = levels.as_mib() - (4000 - 1660);
        assert!(given <= 500, "{given} in second {second}");
    }
    assert!(given > 480, "{given}");
}

#[test]
fn a_guest_that_is_reached_late_has_its_part_waiting() {
    let mut rescue = rescue(&[200, 200], 0);
    rescue.lost(2);
    assert_eq!(rescue.step(Some(mib(200)), 0), [(1, mib(900))]);
    rescue.taken(1, mib(900));
    rescue.reached(2, mib(800));
    assert_eq!(rescue.step(Some(mib(200)), 100), [(2, mib(900))]);
    // The rescue does not wait for a guest that is never reached.
    let mut rescue = super::tests::rescue(&[200, 200], 0);
    rescue.lost(2);
    rescue.step(Some(mib(200)), 0);
    rescue.taken(1, mib(900));
    assert_eq!(rescue.step(Some(mib(200)), SEEK_MS), [(1, mib(1000))]);
    rescue.taken(1, mib(1000));
    assert!(!rescue.is_over(SEEK_MS));
    assert_eq!(rescue.outcomes()[1], ("g2", Outcome::Unreached));
    rescue.gone(2, "its process has ended");
    assert!(rescue.is_over(SEEK_MS));
}

#[test]
fn rescue_hands_out_nothing_while_the_host_is_unknown() {
    let mut rescue = rescue(&[100], 0);
    assert!(rescue.step(None, 0).is_empty());
    assert!(rescue.step(Some(Bytes::ZERO), 0).is_empty());
    assert_eq!(rescue.step(Some(mib(100)), 1000).len(), 1);
    assert!(rescue.step(Some(mib(100)), 5000).is_empty(), "one command at a time");
    assert_eq!(rescue.outcomes(), [("g1", Outcome::Unreached)], "the guest never answered");
}

/// Returns a guest of this size, with this much memory left and reclaimed.
fn held(id: u64, restore: u64, left: u64, taken: u64) -> Held {
    Held::example(id, mib(restore).0, mib(left).0, mib(taken).0)
}

#[test]
fn finding_04_taken_memory_is_restored_before_claimed_memory() {
    // The real guest lost 176 of 512 MiB. The other guest claims to have only 10 of 65,536 MiB,
    // although its balloon was never inflated. The other guest now reports that it has nothing at
    // all.
    let guests = [held(1, 512, 336, 176), held(2, 65_536, 10, 0)];
    let mut rescue = Rescue::new(guests.iter(), mib(700), RESCUE_MS, 0);
    rescue.reached(1, mib(336));
    rescue.reached(2, Bytes::ZERO);
    let targets = rescue.step(Some(mib(1000)), 0);
    assert_eq!(targets, [(1, mib(512)), (2, mib(10 + 124))]);
    // The guest that is reached first gets no more than the other guests.
    let mut rescue = Rescue::new(guests.iter(), mib(700), RESCUE_MS, 0);
    rescue.reached(2, mib(10));
    assert_eq!(rescue.step(Some(mib(1000)), 0), [(2, mib(10 + 124))]);
    rescue.reached(1, mib(336));
    assert_eq!(rescue.step(Some(mib(1000)), 100), [(1, mib(512))]);
}

#[test]
fn finding_04_largest_claim_does_not_get_the_largest_part() {
    // This manager has reclaimed nothing from either guest, but a former manager may have.
    let guests = [held(1, 512, 312, 0), held(2, 65_536, 10, 0)];
    let mut rescue = Rescue::new(guests.iter(), Bytes::ZERO, RESCUE_MS, 0);
    rescue.reached(1, mib(312));
    rescue.reached(2, mib(10));
    let targets = rescue.step(Some(mib(1000)), 0);
    assert_eq!(targets, [(1, mib(512)), (2, mib(810))]);
}

#[test]
fn report_h07_rescue_gives_no_more_than_the_group_has() {
    let held = held(1, 400, 160, 240);
    let most = BTreeMap::from([(1, mib(244))]);
    let mut rescue = Rescue::new([&held].into_iter(), mib(50), RESCUE_MS, 0).within(&most);
    rescue.reached(1, mib(160));
    assert_eq!(rescue.step(Some(mib(9000)), 0), [(1, mib(244))]);
    rescue.taken(1, mib(244));
    assert!(rescue.is_over(0));
    assert_eq!(rescue.outcomes(), [("g1", Outcome::Bounded(mib(156)))]);
}

#[test]
fn report_h10_bounded_guest_stays_written_down() {
    let guests = [held(1, 400, 160, 240), held(2, 400, 160, 240), held(3, 400, 160, 240)];
    let most = BTreeMap::from([(1, mib(244))]);
    let mut rescue = Rescue::new(guests.iter(), mib(50), RESCUE_MS, 0).within(&most);
    (1..=2).for_each(|id| rescue.reached(id, mib(160)));
    rescue.gone(3, "its process has ended");
    for (id, target) in rescue.step(Some(mib(9000)), 0) {
        rescue.taken(id, target);
    }
    assert!(rescue.is_over(0));
    assert_eq!([1, 2, 3].map(|id| rescue.is_left(id)), [true, false, false]);
}

#[test]
fn report_h10_guest_with_more_than_its_former_size_keeps_it() {
    let mut rescue = rescue(&[300, 100], 50);
    rescue.reached(1, mib(1200));
    assert_eq!(rescue.step(Some(mib(450)), 0), [(1, mib(1200)), (2, mib(1000))]);
    rescue.taken(1, mib(1200));
    assert!(!rescue.is_left(1) && rescue.is_left(2));
}
