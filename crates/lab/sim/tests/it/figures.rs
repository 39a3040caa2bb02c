//! Promised figures of the table in docs/benchmarks.md, and differences between the model and
//! measurements of other managers.

use policy::rivals::{Kind, Rival};
use sim::figures;
use sim::policies::Ours;

const GIB_KIB: u64 = 1 << 20;

fn rival(kind: Kind) -> Rival {
    Rival::of(kind).expect("not ours")
}

fn within(value: u64, published: u64, percent: u64) {
    let off = value.abs_diff(published) * 100 / published;
    assert!(off <= percent, "{value} is {off} % off {published}");
}

#[test]
fn a_burst_is_met_within_5_s() {
    let ours = figures::burst(&mut Ours::default());
    assert!(ours.is_some_and(|ms| ms <= 5_000), "{ours:?}");
}

#[test]
fn burst_on_a_host_with_room_meets_no_balloon() {
    let ours = figures::burst_on_managed_host(&mut Ours::default());
    assert!(ours.is_some_and(|ms| ms <= 1_200), "{ours:?}");
}

#[test]
fn the_set_point_is_held_and_cold_cache_comes_back() {
    let ours = figures::caches(&mut Ours::default());
    assert!(ours.off_permille_max <= 20, "{ours:?}");
    let none = figures::caches(&mut Rival::None);
    assert!(none.cold_kib - ours.cold_kib >= 20 * GIB_KIB, "{none:?} {ours:?}");
    assert_eq!(ours.waited_ms, 0, "hot cache was taken");
}

#[test]
fn a_starved_guest_gets_what_a_hoarder_has() {
    let ours = figures::hoarder(&mut Ours::default());
    assert!(ours.in_30_s_kib * 10 >= ours.need_kib * 8, "{ours:?}");
}

#[test]
fn a_starved_guest_is_never_shrunk() {
    let ours = figures::squeeze(&mut Ours::default());
    assert_eq!((ours.shrinks, ours.least_kib), (0, 2 * GIB_KIB));
}

#[test]
fn finding_10_lying_guest_takes_nothing_and_delays_no_guest() {
    let ours = figures::liar_beside(&mut Ours::default());
    assert_eq!((ours.shrinks, ours.least_kib), (0, 8 * GIB_KIB));
    let alone = figures::burst(&mut Ours::default());
    let beside = figures::burst_beside_a_liar(&mut Ours::default());
    assert!(beside.is_some() && beside <= alone, "{beside:?} {alone:?}");
}

#[test]
fn neighbours_with_free_memory_give_it_and_nothing_in_vain() {
    let ours = figures::crammed(&mut Ours::default());
    assert!(ours.after_ms.is_some_and(|ms| ms <= 10_000), "{ours:?}");
    assert!(ours.shrinks > 0 && ours.for_nothing == 0, "{ours:?}");
}

#[test]
fn guests_do_not_oscillate_under_a_steady_load() {
    let hundredths = figures::reversals(&mut Ours::default());
    assert!(hundredths <= 100, "{hundredths} hundredths an hour");
}

#[test]
fn rivals_do_in_the_model_what_was_measured_of_them() {
    let mom = figures::burst(&mut rival(Kind::Mom)).unwrap();
    within(mom / 1000, 275, 20);
    let proxmox = figures::burst(&mut rival(Kind::Proxmox)).unwrap();
    within(proxmox / 1000, 410, 20);
    assert_eq!(figures::hoarder(&mut rival(Kind::Proxmox)).in_600_s_kib, 0);
    let kept = figures::caches(&mut rival(Kind::Mom));
    assert!((40..=80).contains(&kept.free_permille), "{kept:?}");
    let squeezed = figures::squeeze(&mut rival(Kind::Proxmox));
    assert!(squeezed.shrinks > 0 && squeezed.least_kib == GIB_KIB, "{squeezed:?}");
}
