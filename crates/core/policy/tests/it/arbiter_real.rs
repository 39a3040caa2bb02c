//! Behaviour found in real guests: balloons make their guests wait, kernels deflate balloons, and a
//! hypervisor's process is larger than its guest.

use base::Bytes;
use policy::arbiter::{
    Action, Arbiter, Clause, Config, Fate, GuestSample, HostSample, Key, Limits, Memory, Mode,
    Pass, Process, RuleVerdicts, Usable,
};

const KEY: Key = Key(1);

fn config() -> Config {
    Config {
        set_point: Bytes::mib(96),
        hysteresis: Bytes::mib(24),
        reserve: Bytes::mib(32),
        ..Config::of_host(Bytes::mib(1000))
    }
}

/// Returns a guest with a maximum of 384 MiB and this size. All of its available memory is cold.
fn guest(actual: Bytes, available: Bytes, at_ms: u64) -> GuestSample {
    let max = Bytes::mib(384);
    GuestSample {
        key: KEY,
        limits: Limits {
            min: Bytes::mib(64),
            ordered: false,
            max,
            shares: 100,
            mode: Mode::Managed,
        },
        actual: Some(actual),
        resident: Some(actual),
        doubtful: Bytes::ZERO,
        process: Process::default(),
        swapped: None,
        runs: Some(true),
        memory: Some(Memory {
            at_ms,
            clock_ms: at_ms,
            actual,
            free: Some(Bytes::mib(5).min(available)),
            available: Some(available),
            cached: Some(available),
            active_file: Some(Bytes::ZERO),
            refaults: Some(0),
            stalls: Some(0),
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

fn pass(arbiter: &mut Arbiter, free_mib: u64, guest: GuestSample, now_ms: u64) -> Pass {
    let (total, available) = (Bytes::mib(1000), Bytes::mib(free_mib));
    let host =
        HostSample { at_ms: now_ms, total, available, strained: false, page_out: Bytes::ZERO };
    arbiter.pass(&config(), Some(&host), &[guest], &mut |_, _: &_| RuleVerdicts::default(), now_ms)
}

#[test]
fn guest_waiting_for_dropped_cold_cache_is_not_in_need() {
    let mut arbiter = Arbiter::new();
    pass(&mut arbiter, 90, guest(Bytes::mib(384), Bytes::mib(300), 1000), 1000);
    let mut waits = guest(Bytes::mib(384), Bytes::mib(300), 2000);
    waits.urgent = true;
    if let Some(memory) = &mut waits.memory {
        (memory.psi_some_us, memory.stalls) = (Some(500_000), Some(20));
    }
    let decided = pass(&mut arbiter, 40, waits, 2000);
    let decision = decided.decisions.first().expect("a decision");
    assert_eq!((decision.action, decision.clause), (Action::Shrink, Clause::SetPoint));
    // With little cache left to drop, the same wait is a need.
    let mut arbiter = Arbiter::new();
    pass(&mut arbiter, 90, guest(Bytes::mib(300), Bytes::mib(20), 1000), 1000);
    let mut waits = guest(Bytes::mib(300), Bytes::mib(20), 2000);
    waits.urgent = true;
    let decided = pass(&mut arbiter, 90, waits, 2000);
    assert_eq!(decided.decisions.first().map(|d| d.clause), Some(Clause::Need));
}

#[test]
fn kernel_that_takes_more_than_its_grant_is_not_stuck() {
    let mut arbiter = Arbiter::new();
    let starved = |actual: u64, at_ms| GuestSample {
        urgent: true,
        ..guest(Bytes::mib(actual), Bytes::mib(4), at_ms)
    };
    let granted = pass(&mut arbiter, 60, starved(160, 1000), 1000);
    let to = granted.decisions.first().and_then(|d| d.command).expect("a grant");
    assert!(to < Bytes::mib(258), "{to:?}");
    let mut fates = Vec::new();
    for turn in 2..12 {
        let passed = pass(&mut arbiter, 32, starved(258, turn * 1000), turn * 1000);
        fates.extend(passed.outcomes.iter().map(|outcome| outcome.result));
        assert!(passed.decisions.iter().all(|d| d.clause != Clause::Stuck), "{passed:?}");
    }
    assert_eq!(fates, [Fate::TookBack]);
}

#[test]
fn hypervisor_memory_does_not_hide_gains_of_the_host() {
    let mut arbiter = Arbiter::new();
    let (mut actual, mut available) = (Bytes::mib(384), Bytes::mib(300));
    for turn in 1..20 {
        let resident = Some(actual.plus(Bytes::mib(100)));
        let sample = GuestSample { resident, ..guest(actual, available, turn * 1000) };
        let passed = pass(&mut arbiter, 40, sample, turn * 1000);
        if let Some(to) = passed.decisions.first().and_then(|d| d.command) {
            available = available.less(actual.less(to));
            actual = to;
        }
    }
    assert!(actual <= Bytes::mib(200), "the guest stopped giving at {actual:?}");
}
