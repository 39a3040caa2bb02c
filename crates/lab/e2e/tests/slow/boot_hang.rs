//! A guest that hangs while it boots is reported by name. Its state is kept, and it is restarted.

use farm::fleet::{Event, Fleet, State};
use std::path::Path;
use vm::images::{Arch, Cache, GuestFile, ImageSpec};
use vm::{Accel, GuestSpec, WhyEmulation};

/// Timeout of the wait. The guest's virtual CPUs must first run for two minutes, next to other
/// load.
const PATIENCE_MS: u64 = 1_200_000;

/// Script that keeps all CPUs busy and prints nothing. The guest never reports that it is up.
const BURN: &str = "(while :; do :; done) & (while :; do :; done) & while :; do :; done\n";

#[test]
fn a_guest_that_hangs_is_named_and_started_again() {
    let cache = Cache::from_environment().expect("a cache");
    let path = "/etc/services/burn".to_owned();
    let burn = GuestFile { path, mode: 0o644, bytes: BURN.into() };
    let image = ImageSpec { arch: Arch::X86_64, daemon: None, files: vec![burn] };
    let spec = GuestSpec {
        cpus: 3,
        ctl: false,
        ..GuestSpec::new(
            "hangs",
            image.build(&cache).expect("an image"),
            Accel::Emulation(WhyEmulation::Asked),
        )
    };
    let mut fleet = Fleet::new(vec![spec], 1);
    let mut first = None;
    let note = loop {
        let now = fleet.now_ms();
        assert!(now < PATIENCE_MS, "{:?}", fleet.members()[0].state());
        let (_, events) = fleet.turn(reactor::PollSet::new(), now + 500).expect("a turn");
        first = first.or(fleet.members()[0].pid());
        let hung = events.into_iter().find_map(|event| match event {
            Event::Hung { guest: 0, note } => Some(note),
            _ => None,
        });
        if let Some(note) = hung {
            break note;
        }
    };
    println!("after {} ms: {note}", fleet.now_ms());
    // The next guest starts after the hung guest has ended.
    let is_another = |fleet: &Fleet| fleet.members()[0].pid().is_some_and(|pid| Some(pid) != first);
    while !is_another(&fleet) {
        let now = fleet.now_ms();
        assert!(now < PATIENCE_MS, "{:?}", fleet.members()[0].state());
        fleet.turn(reactor::PollSet::new(), now + 500).expect("a turn");
    }
    assert_eq!(fleet.members()[0].state(), &State::Booting);

    let directory = note.split(" is in ").nth(1).and_then(|rest| rest.split(';').next());
    let directory = Path::new(directory.expect("a directory"));
    let text = |name| std::fs::read_to_string(directory.join(name)).expect(name);
    for name in ["registers-1", "registers-2"] {
        assert_eq!(text(name).matches("RIP=").count(), 3, "{name}: {}", text(name));
    }
    assert!(text("kernel-log").starts_with("Linux version "), "{}", text("kernel-log"));
    assert!(text("kernel-log").contains("Run /init as init process"), "its last words too");
    assert!(text("threads-1").contains("CPU 2/TCG"), "{}", text("threads-1"));
    assert!(text("status").contains("running"));
    assert!(!directory.join("memory").exists(), "only the log of it");
    std::fs::remove_dir_all(directory).expect("a directory of this test");
}
