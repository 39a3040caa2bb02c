//! Guests in control groups with less memory than their host.

use super::arbiter::{command, gib, guest, of, pass, starved};
use base::Bytes;
use policy::arbiter::{Arbiter, Bound, Clause, GuestSample, Mode, Process};

fn within(most: Bytes, sample: GuestSample) -> GuestSample {
    let process = Process { group_max: Some(most), ..sample.process };
    GuestSample { process, ..sample }
}

#[test]
fn report_h07_need_is_met_as_far_as_the_group_has_room() {
    let mut arbiter = Arbiter::new();
    let most = gib(2).plus(Bytes::mib(100));
    let decided = pass(&mut arbiter, gib(60), &[within(most, starved(1, gib(2), 1000))], 1000);
    let decision = of(&decided, 1).expect("decided");
    assert_eq!((decision.command, decision.clause), (Some(most), Clause::Need));
    assert_eq!(decision.bounds, [Bound::Group]);
    assert!(decision.to_string().ends_with("(bounded by cgroup)"), "{decision}");
}

#[test]
fn report_h07_guest_gets_nothing_where_its_group_is_full() {
    let mut arbiter = Arbiter::new();
    // The group's limit is below the guest's size, but the guest does not shrink because of that.
    let full = within(gib(1), starved(1, gib(2), 1000));
    let decided = pass(&mut arbiter, gib(60), &[full], 1000);
    assert_eq!(command(&decided, 1), None);
    assert_eq!(of(&decided, 1).expect("decided").bounds, [Bound::Group]);
    let low = within(gib(2), guest(2, gib(2), Bytes::mib(10), 1000));
    let decided = pass(&mut Arbiter::new(), gib(60), &[low], 1000);
    let decision = of(&decided, 2).expect("decided");
    assert_eq!((decision.clause, decision.command), (Clause::GroupFull, None));
    let again = within(gib(2), guest(2, gib(2), Bytes::mib(10), 2000));
    let mut arbiter = Arbiter::new();
    assert_eq!(pass(&mut arbiter, gib(60), &[low], 1000).decisions.len(), 1);
    assert!(pass(&mut arbiter, gib(60), &[again], 2000).decisions.is_empty(), "reported once");
}

#[test]
fn report_h07_pin_and_release_go_no_further_than_the_group() {
    for mode in [Mode::Pinned(gib(6)), Mode::Released] {
        let mut sample = within(gib(3), guest(1, gib(2), gib(1), 1000));
        sample.limits.mode = mode;
        let decided = pass(&mut Arbiter::new(), gib(60), &[sample], 1000);
        assert_eq!(command(&decided, 1), Some(gib(3)), "{mode:?}");
    }
}

#[test]
fn report_h07_guest_that_boots_gets_what_its_group_has() {
    let mut arbiter = Arbiter::new();
    let booting = |at_ms| within(gib(3), guest(1, gib(2), gib(1), at_ms));
    pass(&mut arbiter, gib(60), &[booting(1000)], 1000);
    arbiter.rebooted(policy::arbiter::Key(1));
    let decided = pass(&mut arbiter, gib(60), &[booting(2000)], 2000);
    assert_eq!(command(&decided, 1), Some(gib(3)));
}

#[test]
fn report_h14_slow_balloon_is_not_a_full_group() {
    let mut arbiter = Arbiter::new();
    let most = gib(7);
    for turn in 1..8 {
        let now_ms = turn * 1000;
        let slow = starved(1, gib(2).plus(Bytes::mib(10 * turn)), now_ms);
        let decided = pass(&mut arbiter, gib(60), &[within(most, slow)], now_ms);
        let bounds = of(&decided, 1).map_or(Vec::new(), |decision| decision.bounds.clone());
        assert!(!bounds.contains(&Bound::Group), "{turn}: {decided:?}");
    }
}

#[test]
fn report_h07_pin_beyond_a_full_group_is_told() {
    let mut sample = within(gib(2), guest(1, gib(2), gib(1), 1000));
    sample.limits.mode = Mode::Pinned(gib(6));
    let decided = pass(&mut Arbiter::new(), gib(60), &[sample], 1000);
    let decision = of(&decided, 1).expect("decided");
    assert_eq!((decision.clause, decision.command), (Clause::GroupFull, None));
}
