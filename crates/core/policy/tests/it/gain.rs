//! Shrinks without a gain for the host are avoided, based on measurements and on lessons.

use crate::arbiter::{GIB, command, gib, guest, host, of, pass, pass_on};
use base::Bytes;
use policy::arbiter::{Arbiter, Clause, GuestSample, HostSample, Key, Process};

/// A host that lacks 2 GiB to its set point, and no more.
const SHORT: Bytes = Bytes::mib(4608);

/// Returns a guest that uses 1 GiB and has this much cold cache; its other memory is free. The
/// guest's process has this resident memory.
fn with(actual: Bytes, cache: Bytes, resident: Bytes, now_ms: u64) -> GuestSample {
    let mut sample = guest(1, actual, actual.less(GIB), now_ms);
    sample.resident = Some(resident);
    sample.limits.min = Bytes::mib(256);
    if let Some(memory) = &mut sample.memory {
        memory.free = Some(actual.less(GIB).less(cache));
        (memory.cached, memory.active_file) = (Some(cache), Some(Bytes::ZERO));
    }
    sample
}

#[test]
fn free_memory_that_is_not_in_the_hosts_is_not_taken() {
    for (resident, gives) in [(GIB, false), (gib(3), true)] {
        let mut arbiter = Arbiter::new();
        let one = with(gib(4), Bytes::ZERO, resident, 1000);
        let decided = pass(&mut arbiter, SHORT, &[one], 1000);
        assert_eq!(command(&decided, 1).is_some(), gives, "{resident} is resident");
        if !gives {
            assert_eq!(of(&decided, 1).map(|d| d.clause), Some(Clause::Content));
        }
    }
}

#[test]
fn guest_with_mostly_untouched_memory_gives_when_others_cannot() {
    // A shrink by 3 GiB would gain only 256 MiB for the host.
    let thin = || with(gib(4), Bytes::ZERO, GIB.plus(Bytes::mib(256)), 1000);
    let full = (2..10).map(|key| GuestSample { key: Key(key), ..with(gib(4), GIB, gib(4), 1000) });
    let short = crate::arbiter::config().set_point.less(Bytes::mib(700));
    let guests: Vec<GuestSample> = [thin()].into_iter().chain(full).collect();
    let decided = pass(&mut Arbiter::new(), short, &guests, 1000);
    let gave: Vec<u64> = (1..10).filter(|key| command(&decided, *key).is_some()).collect();
    assert_eq!(gave, (2..10).collect::<Vec<u64>>());
    // If resident cold cache is available, untouched memory does not matter.
    let mut cached = with(gib(4), gib(2).plus(Bytes::mib(512)), gib(3).plus(Bytes::mib(512)), 1000);
    cached.key = Key(1);
    let guests = [vec![cached], guests[1..].to_vec()].concat();
    let decided = pass(&mut Arbiter::new(), short, &guests, 1000);
    assert!(command(&decided, 1).is_some(), "it has cold cache");
    let decided = pass(&mut Arbiter::new(), short, &[thin()], 1000);
    assert!(command(&decided, 1).is_some(), "the others have nothing to give");
}

#[test]
fn cache_behind_untouched_free_memory_is_taken_in_one_step() {
    let mut arbiter = Arbiter::new();
    let (free, cache) = (gib(6), GIB);
    let one = with(gib(8), cache, gib(2), 1000);
    let to = command(&pass(&mut arbiter, SHORT, &[one], 1000), 1).expect("a shrink");
    assert!(to < gib(8).less(free), "{} MiB: only untouched memory", to.as_mib());
    assert!(to >= GIB, "used memory stays");
}

#[test]
fn free_memory_is_not_learned_from_a_shrinking_guest() {
    let mut arbiter = Arbiter::new();
    let (resident, lack) = (gib(3), Bytes::mib(700));
    let set_point = crate::arbiter::config().set_point;
    let one = with(gib(8), GIB, resident, 1000);
    let first = pass(&mut arbiter, set_point.less(lack), &[one], 1000);
    let to = command(&first, 1).expect("free memory that was touched");
    assert!((gib(3)..gib(5)).contains(&to), "{} MiB", to.as_mib());
    // The balloon has inflated by more than was reported, so 800 MiB appear to be in use.
    let unheard = Bytes::mib(800);
    let mut sample = with(gib(6), GIB, resident, 2000);
    if let Some(memory) = &mut sample.memory {
        memory.free = memory.free.map(|free| free.less(unheard));
        memory.available = memory.available.map(|available| available.less(unheard));
    }
    pass(&mut arbiter, set_point, &[sample], 2000);
    let arrived = GuestSample { actual: Some(to), resident: Some(resident.less(lack)), ..sample };
    let second = pass(&mut arbiter, set_point.less(Bytes::mib(1300)), &[arrived], 2100);
    let next = command(&second, 1).expect("the rest of the free memory");
    // The guest gives up all memory that was free before the move, and not 300 MiB less.
    assert!(next <= gib(2).plus(Bytes::mib(64)), "{} MiB", next.as_mib());
}

#[test]
fn fruitless_free_memory_does_not_protect_cache() {
    let mut arbiter = Arbiter::new();
    // The hypervisor's own part is 200 MiB, which appear to be touched free memory.
    let resident = gib(2).plus(Bytes::mib(200));
    let mut sizes = [gib(4); 8];
    let host = crate::arbiter::config().set_point.less(Bytes::mib(700));
    let mut first = None;
    for second in 1..10 {
        let now_ms = second * 1000;
        let guests: Vec<GuestSample> = (1..)
            .zip(sizes)
            .map(|(key, size)| GuestSample { key: Key(key), ..with(size, GIB, resident, now_ms) })
            .collect();
        let decided = pass(&mut arbiter, host, &guests, now_ms);
        for (key, size) in (1..).zip(&mut sizes) {
            *size = command(&decided, key).unwrap_or(*size);
        }
        first = first.or(Some(sizes[0]));
    }
    assert!(first.is_some_and(|size| size > gib(2)), "{first:?}: some free memory");
    assert!(sizes.iter().all(|size| *size < gib(2)), "{sizes:?}: all free memory, and cache");
}

/// Returns a guest with a balloon that returns nothing to its host.
fn barren(actual: Bytes, resident: Bytes, now_ms: u64) -> GuestSample {
    GuestSample { resident: Some(resident), ..guest(1, actual, actual.less(GIB), now_ms) }
}

#[test]
fn fruitless_guest_is_asked_again_when_it_holds_more() {
    let mut arbiter = Arbiter::new();
    let first = pass(&mut arbiter, SHORT, &[barren(gib(4), gib(4), 1000)], 1000);
    let to = command(&first, 1).expect("a target");
    let mut clauses = Vec::new();
    for now_ms in (2000..60_000).step_by(1000) {
        let decided = pass(&mut arbiter, SHORT, &[barren(to, gib(4), now_ms)], now_ms);
        assert_eq!(command(&decided, 1), None, "at {now_ms}");
        clauses.extend(of(&decided, 1).map(|decision| decision.clause));
    }
    assert_eq!(clauses, [Clause::NoYield], "reported once");
    let more = barren(to, gib(4).plus(Bytes::mib(200)), 60_000);
    let again = command(&pass(&mut arbiter, SHORT, &[more], 60_000), 1).expect("the new memory");
    assert!(to.less(again) <= Bytes::mib(400), "{} MiB for 200", to.less(again).as_mib());
}

/// On a host that swaps, swapped memory that the guest drops need not be read again.
#[test]
fn dropped_swap_counts_as_gain_on_a_host_that_pages() {
    for strained in [false, true] {
        let mut arbiter = Arbiter::new();
        let (mut actual, mut clauses) = (gib(4), Vec::new());
        for now_ms in (1000..20_000).step_by(1000) {
            // 2 GiB stay resident, and the balloon inflates only into swapped memory.
            let swapped = Some(actual.less(gib(2)));
            let one = GuestSample { swapped, ..barren(actual, gib(2), now_ms) };
            let on = HostSample { strained, ..host(SHORT, now_ms) };
            let decided = pass_on(&mut arbiter, &on, &[one]);
            actual = command(&decided, 1).unwrap_or(actual);
            clauses.extend(of(&decided, 1).map(|decision| decision.clause));
        }
        assert_eq!(clauses.contains(&Clause::NoYield), !strained, "{clauses:?}");
    }
}

#[test]
fn fruitless_guest_rests_twice_as_long_up_to_160_min() {
    let mut arbiter = Arbiter::new();
    let (mut actual, mut asked_s) = (gib(8), Vec::new());
    for second in 1..40_000 {
        let now_ms = second * 1000;
        let decided = pass(&mut arbiter, SHORT, &[barren(actual, gib(8), now_ms)], now_ms);
        if let Some(to) = command(&decided, 1) {
            asked_s.push(second);
            actual = to;
        }
    }
    // Each wait begins a second after the request, when the fruitless shrink is detected.
    let waits_min: Vec<u64> = asked_s.windows(2).map(|two| (two[1] - two[0] - 1) / 60).collect();
    assert_eq!(waits_min, [10, 20, 40, 80, 160, 160, 160]);
}

/// Returns a guest with a balloon that returns nothing, in a process with a measured own part of 64
/// MiB.
fn measured(actual: Bytes, now_ms: u64) -> GuestSample {
    let private = Some(gib(4).plus(Bytes::mib(64)));
    let process = Process { private, ..Process::default() };
    GuestSample { process, ..barren(actual, gib(4), now_ms) }
}

#[test]
fn report_h06_shrink_in_vain_is_given_back_for_nothing() {
    let mut arbiter = Arbiter::new();
    let first = pass(&mut arbiter, SHORT, &[measured(gib(4), 1000)], 1000);
    let to = command(&first, 1).expect("a target");
    // A host without any memory to grant.
    let none = Bytes::ZERO;
    let second = pass(&mut arbiter, none, &[measured(to, 2000)], 2000);
    let decision = of(&second, 1).expect("decided");
    assert_eq!((decision.command, decision.clause), (Some(gib(4)), Clause::NoYield));
    let on_its_way = pass(&mut arbiter, none, &[measured(to, 2500)], 2500);
    let promised = on_its_way.inputs[0].1.host_promised;
    assert_eq!(promised, Some(Bytes::ZERO), "the memory is on the host anyway");
}

#[test]
fn report_h06_guest_that_gave_in_vain_is_tried_less_and_less() {
    let mut arbiter = Arbiter::new();
    let (mut actual, mut asked_s) = (gib(4), Vec::new());
    for second in 1..8_000 {
        let now_ms = second * 1000;
        let decided = pass(&mut arbiter, SHORT, &[measured(actual, now_ms)], now_ms);
        if let Some(to) = command(&decided, 1) {
            asked_s.extend((to < actual).then_some(second));
            actual = to;
        }
        let is_tried = asked_s.last().is_some_and(|asked_s| second < asked_s + 2);
        assert!(is_tried || actual == gib(4), "not returned at {second}");
    }
    let waits_min: Vec<u64> = asked_s.windows(2).map(|two| (two[1] - two[0] - 1) / 60).collect();
    assert_eq!(waits_min, [10, 20, 40]);
}

#[test]
fn report_h06_memory_that_cannot_leave_the_host_is_left_alone() {
    let mut arbiter = Arbiter::new();
    let words = "its balloon frees nothing on the host: its memory is locked";
    let pinned = |actual, at_ms| {
        let process = Process { pinned: Some(words), ..Process::default() };
        GuestSample { process, ..barren(actual, gib(8), at_ms) }
    };
    // An earlier manager had reclaimed half of the memory.
    let first = pass(&mut arbiter, SHORT, &[pinned(gib(4), 1000)], 1000);
    let decision = of(&first, 1).expect("decided");
    assert_eq!((decision.command, decision.clause), (Some(gib(8)), Clause::Locked));
    assert_eq!(decision.why(), words);
    let mut decisions = 0;
    for now_ms in (2000..60_000).step_by(1000) {
        let decided = pass(&mut arbiter, Bytes::mib(100), &[pinned(gib(8), now_ms)], now_ms);
        assert_eq!(command(&decided, 1), None);
        decisions += decided.decisions.len();
    }
    assert_eq!(decisions, 0, "already reported");
}

#[test]
fn report_h06_own_part_that_is_measured_meanwhile_is_no_gain() {
    let mut arbiter = Arbiter::new();
    // The process is as large as before. Its own part is first estimated as 32 MiB, and then
    // measured as 105 MiB.
    let of_own = |actual, own, now_ms| {
        let private = gib(4).plus(Bytes::mib(117));
        let resident = private.less(Bytes::mib(own));
        let process = Process { private: Some(private), ..Process::default() };
        GuestSample { process, ..barren(actual, resident, now_ms) }
    };
    let first = pass(&mut arbiter, SHORT, &[of_own(gib(4), 32, 1000)], 1000);
    let to = command(&first, 1).expect("a target");
    let second = pass(&mut arbiter, SHORT, &[of_own(to, 105, 2000)], 2000);
    let got = second.outcomes.first().expect("arrived").host_got;
    assert_eq!(got, Some(Bytes::ZERO));
}
