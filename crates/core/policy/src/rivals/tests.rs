//! Each rival compared with its formula, with values computed by hand.

use super::*;
use crate::arbiter::{Action, Arbiter, Config, HostSample, Key, Limits, Memory, Process, Usable};
use base::Bytes;

const TOTAL: Bytes = Bytes::mib(64_000);

fn host(available_mib: u64) -> HostSample {
    HostSample {
        at_ms: 0,
        total: TOTAL,
        available: Bytes::mib(available_mib),
        strained: false,
        page_out: Bytes::ZERO,
    }
}

/// Returns a guest with a maximum of 8000 MiB and a minimum of 1000 MiB.
fn guest(key: u64, actual_mib: u64, free_mib: u64, waited_us: u64) -> GuestSample {
    let actual = Bytes::mib(actual_mib);
    GuestSample {
        key: Key(key),
        limits: Limits {
            min: Bytes::mib(1000),
            ordered: false,
            max: Bytes::mib(8000),
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
            actual,
            free: Some(Bytes::mib(free_mib)),
            available: Some(Bytes::mib(free_mib)),
            psi_some_us: Some(waited_us),
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

/// Returns the targets of one pass, in MiB.
fn pass(rival: &mut Rival, second: u64, host: &HostSample, samples: &[GuestSample]) -> Vec<u64> {
    let now_ms = second * 1000;
    let scene = Scene { now_ms, host: Some(host), host_psi_permille: None, samples };
    rival.pass(&scene).list.iter().map(|order| order.target.as_mib()).collect()
}

#[test]
fn each_rival_has_at_most_100_lines_of_code() {
    for (name, text) in [
        ("mom", include_str!("mom.rs")),
        ("proxmox", include_str!("proxmox.rs")),
        ("pi", include_str!("pi.rs")),
        ("senpai", include_str!("senpai.rs")),
    ] {
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
        let count = text.lines().filter(is_code).count();
        assert!(count <= 100, "{name}: {count} lines");
        assert!(text.starts_with("//! "), "{name} names no source");
    }
}

#[test]
fn every_kind_has_its_rules_and_its_clause() {
    for kind in Kind::ALL {
        match Rival::of(*kind) {
            Some(rival) => assert_eq!(rival.kind(), *kind),
            None => assert_eq!(*kind, Kind::Pinhead),
        }
    }
}

#[test]
fn mom_shrinks_by_a_twentieth_and_grows_by_as_much() {
    // A tenth of the host is free, which is half of MOM's target. A guest therefore keeps a tenth
    // of its memory free.
    let mut mom = Rival::Mom(Mom::default());
    assert_eq!(pass(&mut mom, 10, &host(6_400), &[guest(1, 4000, 3000, 0)]), [3800]);
    assert!(pass(&mut mom, 15, &host(6_400), &[guest(1, 3800, 2800, 0)]).is_empty(), "too soon");
    // A guest full of cache is not shrunk. On a full host it is shrunk below its used memory.
    let mut mom = Rival::Mom(Mom::default());
    assert!(pass(&mut mom, 10, &host(6_400), &[guest(1, 4000, 100, 0)]).is_empty());
    let mut mom = Rival::Mom(Mom::default());
    assert_eq!(pass(&mut mom, 10, &host(0), &[guest(1, 4000, 0, 0)]), [3800]);
    let mut mom = Rival::Mom(Mom::default());
    assert_eq!(pass(&mut mom, 10, &host(20_000), &[guest(1, 4000, 2000, 0)]), [4200]);
}

#[test]
fn proxmox_divides_what_the_host_lacks_by_100_mib_a_guest() {
    let samples = [guest(1, 4000, 3000, 0), guest(2, 4000, 0, 0)];
    // If 60 MiB are missing, the roomy guest gives them up. If 1000 MiB are missing, that guest
    // gives up 100 MiB, the limit. The starved guest keeps its memory as long as another guest can
    // shrink.
    let mut proxmox = Rival::Proxmox(Proxmox::default());
    assert_eq!(pass(&mut proxmox, 10, &host(12_740), &samples), [3940]);
    assert_eq!(pass(&mut proxmox, 20, &host(11_800), &samples), [3900]);
    assert!(pass(&mut proxmox, 25, &host(11_800), &samples).is_empty(), "too soon");
    assert!(pass(&mut proxmox, 30, &host(12_805), &samples).is_empty(), "the dead band");
    assert_eq!(pass(&mut proxmox, 40, &host(12_860), &samples), [4060]);
    // No guest is roomy, so all shrink. A guest above its part shrinks even if the host has enough
    // memory.
    let starved = [guest(1, 4000, 0, 0), guest(2, 4000, 0, 0)];
    assert_eq!(pass(&mut proxmox, 50, &host(11_800), &starved), [3900, 3900]);
    let uneven = [guest(1, 4000, 0, 0), guest(2, 2000, 0, 0)];
    assert_eq!(pass(&mut proxmox, 60, &host(12_860), &uneven), [3900, 2100]);
}

#[test]
fn the_pi_controller_steers_by_the_error_and_its_integral() {
    let mut pi = Rival::Pi(Pi::default());
    // With 15 % free, e = 0.05 and its integral is 0.25, which gives 0.0375 of 8000 MiB.
    assert_eq!(pass(&mut pi, 5, &host(9_600), &[guest(1, 8000, 6000, 0)]), [7700]);
    // The integral is now 0.5, which gives 0.05 of the maximum.
    assert_eq!(pass(&mut pi, 10, &host(9_600), &[guest(1, 7700, 5700, 0)]), [7300]);
    // The floor is the used memory, unless less than a tenth of the host is free.
    let mut pi = Rival::Pi(Pi::default());
    assert_eq!(pass(&mut pi, 5, &host(6_400), &[guest(1, 8000, 100, 0)]), [7900]);
    let mut pi = Rival::Pi(Pi::default());
    assert_eq!(pass(&mut pi, 5, &host(3_200), &[guest(1, 8000, 100, 0)]), [7100]);
    // While the host waits for half of the time, no guest has more than a third of its maximum.
    let mut pi = Rival::Pi(Pi::default());
    let (host, samples) = (host(3_200), [guest(1, 8000, 7900, 0)]);
    let target = (1..=60).filter_map(|second| {
        let scene = Scene {
            now_ms: second * 1000,
            host: Some(&host),
            host_psi_permille: Some(600),
            samples: &samples,
        };
        pi.pass(&scene).list.first().map(|order| order.target)
    });
    assert_eq!(target.last(), Some(Bytes::mib(2640)));
}

#[test]
fn senpai_probes_by_a_hundredth_and_backs_off_by_the_square() {
    let mut senpai = Rival::Senpai(Senpai::default());
    let at = |second, waited_us, senpai: &mut Rival| {
        pass(senpai, second, &host(0), &[guest(1, 4000, 0, waited_us)])
    };
    for second in 1..=6 {
        assert!(at(second, 500, &mut senpai).is_empty(), "senpai rests first: {second}");
    }
    assert_eq!(at(7, 500, &mut senpai), [3960]);
    // A wait of 200 ms would double the size. This wait is half of 200 ms, and the square of a half
    // is a quarter, so the size grows by a quarter at once.
    assert_eq!(at(8, 100_500, &mut senpai), [5000]);
    assert_eq!(at(9, 900_500, &mut senpai), [8000]);
    // A wait of 5 ms in six seconds scales the step by the square of a fifth.
    for second in 10..=14 {
        assert!(at(second, 905_500, &mut senpai).is_empty(), "{second}");
    }
    assert_eq!(at(15, 905_500, &mut senpai), [3998]);
    let silent = GuestSample { memory: Some(Memory::default()), ..guest(1, 4000, 0, 0) };
    assert!(pass(&mut senpai, 30, &host(0), &[silent]).is_empty(), "no waits reported");
}

#[test]
fn a_guests_bounds_hold_and_what_the_operator_fixed_stays() {
    let mut proxmox = Rival::Proxmox(Proxmox::default());
    let mut pinned = guest(2, 4000, 3000, 0);
    pinned.limits.mode = Mode::Pinned(Bytes::mib(4000));
    let samples = [guest(1, 1040, 600, 0), pinned];
    assert_eq!(pass(&mut proxmox, 10, &host(0), &samples), [1000]);
    // MOM has no floor of its own, and qemus' controller has a lower floor.
    for kind in [Kind::Mom, Kind::Pi] {
        let Some(mut rival) = Rival::of(kind) else { panic!("{kind}") };
        let mut tight = guest(1, 4000, 3000, 0);
        tight.limits.min = Bytes::mib(3900);
        assert_eq!(pass(&mut rival, 10, &host(0), &[tight]), [3900], "{kind}");
    }
    let samples = [guest(1, 4000, 0, 0), guest(2, 8000, 0, 0)];
    assert_eq!(pass(&mut Rival::Reporting, 10, &host(0), &samples), [8000]);
    assert!(pass(&mut Rival::None, 10, &host(0), &samples).is_empty());
}

#[test]
fn hostile_numbers_break_nothing() {
    let most = Bytes(u64::MAX);
    let mut liar = guest(1, 4000, 0, 0);
    liar.memory = Some(Memory {
        actual: most,
        free: Some(most),
        available: Some(most),
        psi_some_us: Some(u64::MAX),
        ..Memory::default()
    });
    let wide = GuestSample { actual: Some(Bytes::ZERO), ..guest(2, 0, 0, u64::MAX) };
    for kind in Kind::ALL {
        let Some(mut rival) = Rival::of(*kind) else { continue };
        for second in 1..40 {
            let samples = [guest(1, 4000, 0, 0), wide, liar];
            let empty = HostSample { total: Bytes::ZERO, ..host(0) };
            pass(&mut rival, second, &empty, &samples[usize::from(second > 10)..]);
        }
    }
}

#[test]
fn orders_are_carried_out_and_told_as_decisions_of_their_rules() {
    let mut arbiter = Arbiter::new();
    let config = Config::of_host(TOTAL);
    let mut proxmox = Rival::Proxmox(Proxmox::default());
    let mut at = |second: u64, samples: &[GuestSample]| {
        let host = HostSample { at_ms: second * 1000, ..host(0) };
        let scene =
            Scene { now_ms: second * 1000, host: Some(&host), host_psi_permille: None, samples };
        let orders = proxmox.pass(&scene);
        arbiter.follow(&orders, &config, Some(&host), samples, second * 1000)
    };
    let broken = GuestSample { usable: Usable::No("it has no balloon"), ..guest(2, 4000, 0, 0) };
    // A waiting guest is still shrunk.
    let pass = at(10, &[GuestSample { urgent: true, ..guest(1, 4000, 0, 0) }, broken]);
    let [starved, broken_one] = pass.decisions.as_slice() else { panic!("{pass:?}") };
    assert_eq!((starved.action, starved.clause), (Action::Shrink, Clause::Proxmox));
    assert_eq!(starved.command, Some(Bytes::mib(3900)));
    assert_eq!(starved.inputs.rules_host_permille, Some(1000));
    assert_eq!(
        starved.to_string(),
        "4000 -> 3900 MiB: by the rules of Proxmox: 100 % of the host is in use, and their target \
         is 80 %"
    );
    assert_eq!((broken_one.clause, broken_one.command), (Clause::Unusable, None));
    // The target is reached, and nothing is reported until the next beat.
    let pass = at(12, &[guest(1, 3900, 0, 0), broken]);
    assert_eq!((pass.outcomes.len(), pass.decisions.len()), (1, 0), "{pass:?}");
}
