//! Balloons wait for page-out if it is expected to gain the host's missing memory.

use crate::arbiter::{command, config, gib, guest, host, of, pass_on, starved};
use base::Bytes;
use policy::arbiter::{Arbiter, Clause, GuestSample, HostSample, Pass};

/// Returns a guest of 4 GiB with 3 GiB available, all of it page cache. This much of the cache is
/// in use.
fn caching(key: u64, hot: Bytes) -> GuestSample {
    let mut sample = guest(key, gib(4), gib(3), 1000);
    if let Some(memory) = &mut sample.memory {
        (memory.free, memory.cached) = (Some(Bytes::ZERO), Some(gib(3)));
        memory.active_file = Some(hot);
    }
    sample
}

fn pass(available_mib: u64, page_out: Bytes, guests: &[GuestSample]) -> Pass {
    pass_at(&mut Arbiter::new(), available_mib, page_out, guests, 1000)
}

fn pass_at(
    arbiter: &mut Arbiter,
    available_mib: u64,
    page_out: Bytes,
    guests: &[GuestSample],
    at_ms: u64,
) -> Pass {
    let available = Bytes::mib(available_mib);
    pass_on(arbiter, &HostSample { page_out, ..host(available, at_ms) }, guests)
}

#[test]
fn cache_is_left_to_page_out_and_free_memory_is_not() {
    let cold = [caching(1, Bytes::ZERO)];
    let alone = pass(5000, Bytes::ZERO, &cold);
    assert_eq!(command(&alone, 1), Some(Bytes::mib(4096 - 512)), "one step");
    let first = pass(5000, gib(8), &cold);
    assert_eq!(command(&first, 1), None);
    assert_eq!(of(&first, 1).map(|d| d.inputs.host_page_out), Some(Some(gib(8))));
    // 1.5 GiB of the guest's memory are free.
    let idle = [guest(1, gib(4), gib(3), 1000)];
    assert_eq!(command(&pass(5000, gib(8), &idle), 1), Some(Bytes::mib(4096 - 512)));
}

#[test]
fn a_balloon_takes_what_page_out_is_not_expected_to_gain() {
    let lack = config().set_point.less(Bytes::mib(5000));
    let some = pass(5000, lack.less(Bytes::mib(100)), &[caching(1, Bytes::ZERO)]);
    assert_eq!(command(&some, 1), Some(Bytes::mib(4096 - 100)));
}

#[test]
fn half_way_to_the_reserve_only_cache_in_use_waits_for_page_out() {
    // The other guest is above its share, because its neighbour has only the minimum.
    let small = guest(2, gib(1), Bytes::mib(900), 1000);
    let low = config().set_point.plus(config().reserve).0 / 2 / Bytes::mib(1).0 - 100;
    let (cold, hot) = ([caching(1, Bytes::ZERO)], [caching(1, gib(3)), small]);
    assert!(command(&pass(low, gib(8), &cold), 1).is_some());
    assert_eq!(command(&pass(low, gib(8), &hot), 1), None);
    assert!(command(&pass(low, Bytes::ZERO, &hot), 1).is_some());
}

#[test]
fn guest_in_need_does_not_wait_for_page_out() {
    let reserve = config().reserve.0 / Bytes::mib(1).0;
    let guests = [caching(1, Bytes::ZERO), starved(2, gib(2), 1000)];
    let decided = pass(reserve + 10, gib(8), &guests);
    assert_eq!(of(&decided, 1).map(|d| d.clause), Some(Clause::Shortage));
    assert!(command(&decided, 1).is_some());
    // The reserve is also restored without waiting.
    let decided = pass(reserve - 500, gib(8), &[caching(1, gib(3))]);
    assert_eq!(of(&decided, 1).map(|d| d.clause), Some(Clause::Emergency));
    assert!(command(&decided, 1).is_some());
}

#[test]
fn balloons_take_what_page_out_has_not_gained_after_20_s() {
    let mut arbiter = Arbiter::new();
    let mut first = None;
    for second in 1..=30 {
        let mut sample = caching(1, Bytes::ZERO);
        if let Some(memory) = &mut sample.memory {
            (memory.at_ms, memory.clock_ms) = (second * 1000, second * 1000);
        }
        let pass = pass_at(&mut arbiter, 5000, gib(8), &[sample], second * 1000);
        first = first.or(command(&pass, 1).map(|_| second));
        if first.is_some() {
            assert_eq!(of(&pass, 1).map(|d| d.inputs.host_page_out), Some(Some(Bytes::ZERO)));
            break;
        }
    }
    assert_eq!(first, Some(21));
}
