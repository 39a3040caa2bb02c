//! Claims of a guest, compared with the host's measurements. A guest, or a process that imitates a
//! guest, may claim anything.

use base::Bytes;
use policy::arbiter::{
    Action, Arbiter, Clause, Config, Decision, GuestSample, HostSample, Key, Limits, Memory, Mode,
    Pass, Process, RuleVerdicts, Usable,
};

const GIB: Bytes = Bytes::mib(1024);
/// The real guest, and the dishonest one.
const REAL: u64 = 1;
const OTHER: u64 = 2;

fn gib(count: u64) -> Bytes {
    Bytes(GIB.0 * count)
}

/// Runs a pass on a host of 24 GiB with this much free memory.
fn pass(arbiter: &mut Arbiter, available: Bytes, guests: &[GuestSample], now_ms: u64) -> Pass {
    let config = Config::of_host(gib(24));
    let host = HostSample {
        at_ms: now_ms,
        total: gib(24),
        available,
        strained: false,
        page_out: Bytes::ZERO,
    };
    let mut verdicts = |_, _: &_| RuleVerdicts::default();
    arbiter.pass(&config, Some(&host), guests, &mut verdicts, now_ms)
}

fn of(pass: &Pass, key: u64) -> Option<&Decision> {
    pass.decisions.iter().find(|d| d.key == Key(key))
}

fn command(pass: &Pass, key: u64) -> Option<Bytes> {
    of(pass, key).and_then(|d| d.command)
}

/// Returns a guest with a maximum of 8 GiB and this size, which is all resident. It reports this
/// much free memory and hot cache.
fn guest(key: u64, actual: Bytes, free: Bytes, hot: Bytes, at_ms: u64) -> GuestSample {
    GuestSample {
        key: Key(key),
        limits: Limits { min: GIB, ordered: false, max: gib(8), shares: 100, mode: Mode::Managed },
        actual: Some(actual),
        resident: Some(actual),
        doubtful: Bytes::ZERO,
        process: Process::default(),
        swapped: Some(Bytes::ZERO),
        runs: Some(true),
        memory: Some(Memory {
            at_ms,
            clock_ms: at_ms,
            actual,
            free: Some(free),
            available: Some(free.plus(hot)),
            cached: Some(hot),
            active_file: Some(hot),
            swap_free: Some(GIB),
            psi_some_us: Some(0),
            ..Memory::default()
        }),
        idle_since_sample: false,
        usable: Usable::Yes,
        request: None,
        asks: false,
        urgent: false,
        deflates_on_oom: true,
    }
}

/// Returns a guest that claims that all of its memory is in use, and that its tasks wait for more.
fn starving(key: u64, actual: Bytes, resident: Bytes, at_ms: u64) -> GuestSample {
    let mut sample = guest(key, actual, Bytes::ZERO, Bytes::ZERO, at_ms);
    if let Some(memory) = &mut sample.memory {
        memory.psi_some_us = Some(at_ms * 1000);
    }
    GuestSample { urgent: true, resident: Some(resident), ..sample }
}

/// Returns a process that claims to be a guest of 64 GiB.
fn fake(actual: Bytes, at_ms: u64) -> GuestSample {
    let sample = starving(OTHER, actual, Bytes::mib(10), at_ms);
    let limits = Limits { min: gib(9), max: gib(64), ..sample.limits };
    GuestSample { limits, ..sample }
}

/// An ordered minimum is not limited by the small use of a guest.
#[test]
fn ordered_minimum_is_given_to_a_guest_that_uses_little() {
    let given = |ordered| {
        let mut arbiter = Arbiter::new();
        let mut sample = guest(REAL, GIB, Bytes::mib(900), Bytes::ZERO, 1000);
        (sample.resident, sample.runs) = (Some(Bytes::mib(100)), Some(false));
        sample.limits = Limits { min: gib(4), ordered, ..sample.limits };
        let passed = pass(&mut arbiter, gib(12), &[sample], 1000);
        of(&passed, REAL).map(|decision| (decision.clause, decision.to))
    };
    assert_eq!(given(true), Some((Clause::Limits, gib(4))));
    // A host with room releases the guest instead.
    assert_eq!(given(false), Some((Clause::Room, gib(8))), "the minimum is not ordered");
}

/// A grant is limited to free memory.
#[test]
fn ordered_minimum_is_granted_from_what_is_free() {
    let mut arbiter = Arbiter::new();
    let mut sample = guest(REAL, GIB, Bytes::mib(900), Bytes::ZERO, 1000);
    sample.limits = Limits { min: gib(4), ordered: true, ..sample.limits };
    let reserve = Config::of_host(gib(24)).reserve;
    let passed = pass(&mut arbiter, reserve.plus(GIB), &[sample], 1000);
    assert_eq!(command(&passed, REAL), Some(gib(2)));
}

#[test]
fn finding_04_unseen_claim_moves_and_promises_nothing() {
    for actual in [Bytes::mib(10), GIB, gib(32), gib(64)] {
        let mut arbiter = Arbiter::new();
        for turn in 1..40 {
            let now_ms = turn * 1000;
            // The host is at its set point, and the real guest has cold memory.
            let real = guest(REAL, gib(8), gib(6), GIB, now_ms);
            let at_set_point = Bytes(gib(24).0 / 10);
            let fake = fake(actual, now_ms);
            let passed = pass(&mut arbiter, at_set_point, &[real, fake], now_ms);
            assert_eq!(
                command(&passed, REAL),
                None,
                "{} MiB, {now_ms} ms: {passed:?}",
                actual.as_mib()
            );
            let promised = passed.inputs[0].1.host_promised;
            // Like any small guest, the fake guest may get twice its visible use, plus the
            // allowance.
            let most = Bytes::mib(74);
            assert!(
                promised.is_none_or(|size| size <= most),
                "{} MiB: {promised:?}",
                actual.as_mib()
            );
        }
    }
}

#[test]
fn finding_04_a_grant_that_is_not_used_is_not_renewed() {
    // The guest claims that each grant has arrived and is in use. The host has enough memory for
    // the guest's need, but not for its maximum.
    let mut arbiter = Arbiter::new();
    let (mut actual, mut granted_ms) = (Bytes::mib(512), None);
    for turn in 1..60 {
        let now_ms = turn * 1000;
        let taker = starving(OTHER, actual, Bytes::mib(512), now_ms);
        let passed = pass(&mut arbiter, gib(8), &[taker], now_ms);
        if let Some(to) = command(&passed, OTHER) {
            assert!(to <= Bytes::mib(1088), "{} MiB at {now_ms}", to.as_mib());
            granted_ms = (to > actual).then_some(now_ms).or(granted_ms);
            actual = to;
        }
    }
    assert!(actual > Bytes::mib(512), "the first grant is on trust");
    assert!(granted_ms.is_some_and(|at| at <= 11_000), "{granted_ms:?}");
    // The guest gets more memory as soon as its use is measured.
    let used = starving(OTHER, actual, actual, 61_000);
    let passed = pass(&mut arbiter, gib(20), &[used], 61_000);
    assert_eq!(
        of(&passed, OTHER).map(|d| (d.action, d.clause)),
        Some((Action::Grow, Clause::Need))
    );
}

#[test]
fn finding_10_wait_counts_only_with_cpu_time_and_memory_seen() {
    let short = Config::of_host(gib(24)).reserve;
    let claims = |resident: Bytes, runs: Option<bool>, swapped: Bytes| {
        let mut arbiter = Arbiter::new();
        let one =
            GuestSample { runs, swapped: Some(swapped), ..starving(OTHER, gib(4), resident, 1000) };
        let passed = pass(&mut arbiter, short, &[one], 1000);
        of(&passed, OTHER).map(|d| d.clause)
    };
    assert_eq!(claims(gib(4), Some(true), Bytes::ZERO), Some(Clause::Strained));
    assert_eq!(claims(gib(1), Some(true), gib(3)), Some(Clause::Strained), "swapped out");
    assert_eq!(claims(gib(4), None, Bytes::ZERO), Some(Clause::Strained), "unknown is not no");
    assert_eq!(claims(gib(1), Some(true), Bytes::ZERO), Some(Clause::NotSeen));
    assert_eq!(claims(gib(4), Some(false), Bytes::ZERO), Some(Clause::NotSeen));
}

#[test]
fn finding_10_need_beyond_share_takes_no_hot_cache_of_others() {
    // The guest really uses its 12 GiB, really runs, and needs 16 GiB.
    let mut arbiter = Arbiter::new();
    for turn in 1..60 {
        let now_ms = turn * 1000;
        let mut hog = starving(OTHER, gib(12), gib(12), now_ms);
        hog.limits.max = gib(16);
        let neighbour = guest(REAL, gib(8), Bytes::mib(200), gib(6), now_ms);
        let reserve = Config::of_host(gib(24)).reserve;
        let passed = pass(&mut arbiter, reserve, &[hog, neighbour], now_ms);
        assert_eq!(command(&passed, REAL), None, "at {now_ms}: {passed:?}");
    }
    // A host just below its reserve reclaims its own missing memory, and nothing for the other
    // guest.
    let (mut arbiter, config) = (Arbiter::new(), Config::of_host(gib(24)));
    let mut hog = starving(OTHER, gib(12), gib(12), 1000);
    hog.limits.max = gib(16);
    let neighbour = guest(REAL, gib(8), Bytes::mib(200), gib(6), 1000);
    let below = config.reserve.less(Bytes::mib(1));
    let passed = pass(&mut arbiter, below, &[hog, neighbour], 1000);
    let to = command(&passed, REAL).expect("the host is below its reserve");
    let lacks = config.hysteresis.plus(Bytes::mib(1));
    assert!(gib(8).less(to) <= Bytes::mib(200).plus(lacks), "{passed:?}");
    // In the reverse case, the guest above its share shrinks.
    let mut arbiter = Arbiter::new();
    let mut beyond = guest(OTHER, gib(12), Bytes::mib(200), gib(10), 1000);
    beyond.limits.max = gib(16);
    let within = starving(REAL, gib(4), gib(4), 1000);
    let passed = pass(&mut arbiter, Config::of_host(gib(24)).reserve, &[beyond, within], 1000);
    let decision = of(&passed, OTHER).map(|d| (d.action, d.clause));
    assert_eq!(decision, Some((Action::Shrink, Clause::Shortage)));
}

#[test]
fn finding_10_past_wait_protects_no_guest_beyond_its_share() {
    // The guest claims a wait every ten seconds, and has half of its memory free.
    let gives_ms = |shares: u32| {
        let mut arbiter = Arbiter::new();
        let crier = |now_ms: u64| {
            let mut crier = guest(OTHER, gib(12), gib(6), Bytes::ZERO, now_ms);
            crier.limits = Limits { max: gib(16), shares, ..crier.limits };
            if let Some(memory) = &mut crier.memory {
                memory.swap_in = Some(now_ms / 10_000 * 100_000);
            }
            crier
        };
        pass(&mut arbiter, gib(20), &[crier(9_000)], 9_000);
        (10..60).map(|turn| turn * 1000).find(|now_ms| {
            let within = starving(REAL, gib(4), gib(4), *now_ms);
            let reserve = Config::of_host(gib(24)).reserve;
            let passed = pass(&mut arbiter, reserve, &[crier(*now_ms), within], *now_ms);
            command(&passed, OTHER).is_some_and(|to| to < gib(12))
        })
    };
    assert_eq!(gives_ms(100), Some(12_000), "beyond its share");
    assert_eq!(gives_ms(1000), None, "within its share");
}

#[test]
fn report_h06_grant_to_a_locked_guest_is_not_free_for_others() {
    let mut arbiter = Arbiter::new();
    let free = Config::of_host(gib(24)).reserve.plus(GIB);
    let locked = |now_ms| {
        let sample = starving(REAL, gib(2), gib(2), now_ms);
        let process = Process { pinned: Some("its memory is locked"), ..sample.process };
        GuestSample { process, ..sample }
    };
    let first = command(&pass(&mut arbiter, free, &[locked(1000)], 1000), REAL).expect("a need");
    assert!(first > gib(2));
    // The grant has not arrived, and the host still reports it as free.
    let guests = [locked(2000), starving(OTHER, gib(2), gib(2), 2000)];
    let second = pass(&mut arbiter, free, &guests, 2000);
    let given = |key| command(&second, key).map_or(Bytes::ZERO, |to| to.less(gib(2)));
    let all = first.less(gib(2)).max(given(REAL)).plus(given(OTHER));
    assert!(all <= GIB, "{all:?} granted of 1 GiB");
    assert_eq!(second.inputs[0].1.host_promised, Some(first.less(gib(2))));
}
