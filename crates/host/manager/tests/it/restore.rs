//! Sizes of guests after the manager's end, which must equal the sizes before the manager's start.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::scene::{FOUR, GIB, Scene, Sleeper, write_meminfo};
use base::Bytes;
use hypervisor::{Capabilities, Event, Fake, Found, Id, Machine, ProcessId, RunState};

const TWO: Bytes = Bytes::mib(2048);

/// Adds a guest of 4 GiB in a process, with this size at the manager's start.
fn add(scene: &mut Scene, process: &Sleeper, actual: Bytes) -> Id {
    let found = Found { actual, process: ProcessId::of(process.pid()), ..Fake::found("web", FOUR) };
    add_found(scene, found)
}

fn add_found(scene: &mut Scene, found: Found) -> Id {
    let guest = scene.fake.add(found);
    scene.guests.push((guest, Bytes::mib(500)));
    guest
}

/// Pins the guest to a size, and waits until it has the size.
fn pin(scene: &mut Scene, size: &str) {
    set(scene, "pin", size);
}

fn set(scene: &mut Scene, what: &str, size: &str) {
    let request =
        format!(r#"{{"v":1,"id":1,"do":"set","guest":"web","what":"{what}","value":"{size}"}}"#);
    let answer = scene.ask(&mut scene.client(), &request).unwrap();
    assert!(answer["error"].is_null(), "{answer}");
    scene.run(5_000);
}

/// Returns the line with a guest's size to restore.
fn line(process: &Sleeper, size: Bytes) -> String {
    let id = ProcessId::of(process.pid()).unwrap();
    format!("{} {} size {}", id.pid, id.start_ticks, size.0)
}

#[test]
fn report_h10_guest_that_was_found_small_is_left_so() {
    let (mut scene, process) = (Scene::after(""), Sleeper::start());
    let guest = add(&mut scene, &process, TWO);
    scene.run(5_000);
    assert_eq!(scene.held(), 0, "nothing was taken from the guest");
    scene.fake.set_actual(guest, Bytes::mib(1500));
    scene.run(5_000);
    assert_eq!(scene.held(), 0, "another program took that");
    assert_eq!((scene.fake.targets(), scene.written()), (Vec::new(), Vec::new()));
}

#[test]
fn report_h10_guest_is_to_have_what_it_was_found_with() {
    let (mut scene, process) = (Scene::after(""), Sleeper::start());
    let guest = add(&mut scene, &process, TWO);
    scene.run(3_000);
    pin(&mut scene, "1 GiB");
    assert_eq!(scene.actual(guest), 1024);
    assert_eq!(scene.written(), [line(&process, TWO)]);
    assert_eq!(scene.held(), 1);
    // The guest's monitor is lost, and returns.
    let found = Found {
        actual: Bytes::mib(scene.actual(guest)),
        process: ProcessId::of(process.pid()),
        ..Fake::found("web", FOUR)
    };
    scene.fake.remove(guest, "its monitor is silent");
    scene.run(1_000);
    let guest = add_found(&mut scene, found);
    scene.run(5_000);
    // The pin has ended, so the guest is released. It gets its former size, not its maximum.
    assert_eq!(scene.actual(guest), 2048);
    assert_eq!((scene.written(), scene.held()), (Vec::new(), 0));
}

#[test]
fn report_h10_size_that_others_set_is_not_exceeded() {
    let (mut scene, process) = (Scene::after(""), Sleeper::start());
    let guest = add(&mut scene, &process, FOUR);
    scene.run(3_000);
    pin(&mut scene, "1 GiB");
    assert_eq!(scene.written(), [line(&process, FOUR)]);
    scene.fake.set_actual(guest, Bytes::mib(800));
    scene.run(2_000);
    assert_eq!((scene.held(), scene.written()), (0, Vec::new()));
}

#[test]
fn report_h10_next_manager_restores_what_a_killed_one_took() {
    let process = Sleeper::start();
    let mut scene = Scene::after(&line(&process, FOUR));
    let guest = add(&mut scene, &process, TWO);
    scene.run(500);
    let targets: Vec<_> = scene.fake.targets().iter().map(|(_, id, to)| (*id, *to)).collect();
    assert_eq!(targets, [(guest, TWO)], "the guest may have been on its way to less");
    // The guest had shrunk further before the target arrived.
    scene.fake.set_actual(guest, Bytes::mib(1900));
    scene.run(500);
    assert_eq!((scene.written(), scene.held()), (vec![line(&process, FOUR)], 1));
    scene.run(5_000);
    assert_eq!(scene.actual(guest), 4096, "the host has room");
    assert_eq!((scene.written(), scene.held()), (Vec::new(), 0));
}

#[test]
fn report_h10_plugged_memory_is_kept_with_what_a_guest_had() {
    let (mut scene, process) = (Scene::after(""), Sleeper::start());
    let guest = add(&mut scene, &process, TWO);
    scene.run(3_000);
    let plug = |scene: &mut Scene, actual, memory| {
        scene.fake.set_actual(guest, Bytes::mib(actual));
        let machine =
            Machine { memory: Bytes::mib(memory), ram: Vec::new(), vcpu_tids: Vec::new() };
        scene.fake.emit(Event::Machine(guest, machine));
        scene.run(2_000);
    };
    plug(&mut scene, 3072, 5120);
    assert_eq!(scene.held(), 0, "the guest has 1 GiB more of 5 GiB");
    pin(&mut scene, "1 GiB");
    assert_eq!(scene.written(), [line(&process, Bytes::mib(3072))]);
}

#[test]
fn report_h10_driver_that_was_away_changes_nothing() {
    let (mut scene, process) = (Scene::after(""), Sleeper::start());
    let plain = Fake::found("web", FOUR);
    let can = Capabilities { deflate_on_oom: Some(false), ..plain.can };
    let process_id = ProcessId::of(process.pid());
    let guest = add_found(&mut scene, Found { can, process: process_id, ..plain });
    scene.run(3_000);
    pin(&mut scene, "1 GiB");
    for size in [4096, 1024] {
        scene.fake.set_actual(guest, Bytes::mib(size));
        scene.run(4_000);
        assert_eq!((scene.written(), scene.held()), (vec![line(&process, FOUR)], 1), "{size} MiB");
    }
    scene.run(5_000);
    assert_eq!((scene.written(), scene.held()), (vec![line(&process, FOUR)], 1));
    let notices = scene.manager.take_notices().join("\n");
    assert!(!notices.contains("Another program"), "{notices}");
}

#[test]
fn report_h10_maximum_bounds_only_what_is_given() {
    let (mut scene, process) = (Scene::after(""), Sleeper::start());
    let guest = add(&mut scene, &process, FOUR);
    scene.run(3_000);
    set(&mut scene, "max", "1 GiB");
    assert_eq!(scene.actual(guest), 1024);
    assert_eq!(scene.held(), 0, "the guest has its maximum");
    assert_eq!(scene.written(), [line(&process, FOUR)], "the next manager has no maximum");
    set(&mut scene, "max", "2 GiB");
    assert_eq!(scene.actual(guest), 2048, "the host has room");
    assert_eq!((scene.held(), scene.written()), (0, vec![line(&process, FOUR)]));
}

#[test]
fn report_h10_guest_without_a_process_is_known_again() {
    let mut scene = Scene::after("");
    let guest = add_found(&mut scene, Fake::found("web", FOUR));
    scene.run(3_000);
    pin(&mut scene, "1 GiB");
    assert_eq!((scene.actual(guest), scene.held()), (1024, 1));
    scene.fake.remove(guest, "its monitor is silent");
    scene.run(1_000);
    assert_eq!(scene.held(), 0);
    let guest =
        add_found(&mut scene, Found { actual: Bytes::mib(1024), ..Fake::found("web", FOUR) });
    scene.run(5_000);
    assert_eq!(scene.actual(guest), 4096, "the guest gets back what was taken before");
}

/// Adds a guest of 4 GiB that returns with 1 GiB, in this state, in a separate process.
fn come_back(scene: &mut Scene, process: &Sleeper, is_restored: bool, state: RunState) -> Id {
    let process = ProcessId::of(process.pid());
    let (actual, plain) = (Bytes::mib(1024), Fake::found("web", FOUR));
    add_found(scene, Found { actual, process, is_restored, state, ..plain })
}

/// Returns a scene with a guest of this size that was pinned to 1 GiB and then saved.
fn saved(size: Bytes) -> Scene {
    let (mut scene, process) = (Scene::after(""), Sleeper::start());
    let guest = add(&mut scene, &process, size);
    scene.run(3_000);
    pin(&mut scene, "1 GiB");
    assert_eq!(scene.actual(guest), 1024);
    drop(process);
    scene.fake.remove(guest, "it was saved to a file");
    scene.run(1_000);
    scene
}

#[test]
fn guest_that_is_restored_has_its_memory_again() {
    let mut scene = saved(FOUR);
    let process = Sleeper::start();
    let guest = come_back(&mut scene, &process, true, RunState::Running);
    scene.run(500);
    // The balloon reports sizes on its way to the target set before the save.
    scene.fake.set_actual(guest, Bytes::mib(1000));
    scene.run(2_000);
    assert_eq!(scene.actual(guest), 4096, "the pin is gone, and the host has the memory");
    assert_eq!((scene.held(), scene.written()), (0, Vec::new()));
    let clauses: Vec<_> =
        scene.decisions("web").into_iter().map(|it| it.decision.clause.to_string()).collect();
    assert_eq!(clauses.last().map(String::as_str), Some("boot"), "{clauses:?}");
    assert!(!clauses.contains(&"foreign".into()), "{clauses:?}");
    let notices = scene.manager.take_notices().join("\n");
    assert!(!notices.contains("Another program"), "{notices}");
}

#[test]
fn guest_that_is_restored_is_held_when_the_host_is_full() {
    let mut scene = saved(TWO);
    write_meminfo(&scene.dir, GIB / 4);
    let process = Sleeper::start();
    let guest = come_back(&mut scene, &process, true, RunState::Running);
    scene.run(500);
    // The manager's size has precedence over the configuration, which `virsh setmem` did not
    // change.
    scene.fake.emit(Event::Configured(guest, FOUR));
    scene.run(3_000);
    assert_eq!(scene.written(), [line(&process, TWO)]);
    assert_eq!(scene.held(), 1);
}

#[test]
fn guest_that_was_booted_is_no_saved_one() {
    let mut scene = saved(FOUR);
    write_meminfo(&scene.dir, GIB / 4);
    let process = Sleeper::start();
    come_back(&mut scene, &process, false, RunState::Running);
    scene.run(3_000);
    assert_eq!((scene.held(), scene.written()), (0, Vec::new()), "the guest was started with that");
}

#[test]
fn guest_of_an_unknown_past_has_what_its_configuration_has() {
    for (is_restored, state) in [(true, RunState::Running), (false, RunState::Migrating)] {
        let mut scene = Scene::after("");
        write_meminfo(&scene.dir, GIB / 4);
        let process = Sleeper::start();
        let guest = come_back(&mut scene, &process, is_restored, state);
        scene.run(500);
        assert_eq!(scene.held(), 0, "there is no sign of a larger size");
        scene.fake.set_state(guest, RunState::Running);
        scene.fake.emit(Event::Configured(guest, TWO));
        scene.run(3_000);
        assert_eq!((scene.held(), scene.written()), (1, vec![line(&process, TWO)]));
    }
}
