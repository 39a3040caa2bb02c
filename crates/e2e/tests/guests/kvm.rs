//! KVM may be there and of no use: QEMU ends, or the guest never says a word.

use farm::fleet::{Fleet, Floor};
use images::{Arch, Cache, ImageSpec};
use vm::{Accel, GuestSpec};

/// A guest that is started with KVM comes up, by KVM where that works and by emulation
/// where it does not, and it is printed which.
#[test]
fn a_guest_comes_up_whatever_kvm_is_worth() {
    let _share = e2e::share(1);
    let cache = Cache::from_environment().expect("a cache");
    let image = ImageSpec { arch: Arch::X86_64, daemon: None, files: Vec::new() };
    let spec = GuestSpec {
        ctl: false,
        ..GuestSpec::new("g1", image.build(&cache).expect("an image"), Accel::Kvm)
    };
    let mut fleet = Fleet::new(vec![spec], Floor::default(), 1);
    let is_up = |fleet: &Fleet| {
        String::from_utf8_lossy(fleet.members()[0].console()).contains("pinhead: g1 is up")
    };
    while !is_up(&fleet) {
        let now = fleet.now_ms();
        assert!(now < 180_000, "{:?}", fleet.members()[0].state());
        fleet.turn(reactor::PollSet::new(), now + 500).expect("a turn");
    }
    println!("up after {} ms, by {}", fleet.now_ms(), fleet.members()[0].spec().accel);
}
