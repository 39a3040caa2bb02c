//! QEMUs that hang, flood, send garbage or must not be used.

use serde_json::json;

use super::qemu::MIB;
use super::*;
use crate::{Pause, RunState};

/// Checks that the only event is a problem with this text.
fn trouble(world: &mut World, words: &str) {
    let events = world.take_events();
    assert!(
        matches!(events.as_slice(), [Event::Trouble(text)] if text.contains(words)),
        "no {words} alone: {events:?}"
    );
}

#[test]
fn monitor_held_by_another_client_is_reported_and_retried() {
    let mut world = World::new();
    let mut qemu = Qemu::bind(&world.socket("a"));
    world.turn(0);
    world.turn(4_999);
    assert_eq!(world.take_events(), []);
    world.turn(1);
    trouble(&mut world, "another client uses the monitor");
    for _ in 0..10 {
        world.turn(1_000);
        let dirs = world.source.unclaimed().into_iter();
        let dirs: Vec<PathBuf> = dirs.map(|(dir, _)| dir).collect();
        assert_eq!(dirs, [world.tree.path().join("run")]);
    }
    assert_eq!(world.take_events(), [], "it is reported once");
    // The other client has disconnected. QEMU now serves the waiting clients, one after the other.
    while world.source.places.values().all(|place| place.link().is_none()) {
        world.turn(1_000);
    }
    while world.events.is_empty() {
        qemu.accept();
        qemu.greet();
        world.talk(&mut qemu);
    }
    assert!(matches!(world.take_events().as_slice(), [Event::Found(_, _)]));
    assert!(world.source.unclaimed().is_empty(), "the monitor is that of a guest");
}

#[test]
fn socket_without_qemu_is_reported_once_and_then_forgotten() {
    let mut world = World::new();
    let path = world.socket("a");
    drop(Qemu::bind(&path));
    world.turn(0);
    world.turn(0);
    trouble(&mut world, "have no listener");
    let mut turns = 0;
    let began_ms = world.now_ms;
    while world.now_ms < began_ms + 120_000 {
        let wait_ms = world.source.next_ms().saturating_sub(world.now_ms);
        world.turn(wait_ms);
        turns += 1;
    }
    assert!(turns < 80, "no backoff: {turns}");
    assert_eq!(world.take_events(), []);
    std::fs::remove_file(&path).unwrap();
    world.turn(SCAN_MS);
    assert!(world.source.places.is_empty());
    assert_eq!(world.take_events(), []);
}

#[test]
fn removed_socket_of_an_ended_guest_is_no_trouble() {
    let mut world = World::new();
    let (qemu, id, _) = world.found("a");
    drop(qemu);
    std::fs::remove_file(world.socket("a")).unwrap();
    // The connection is tried again before the next scan.
    let began_ms = world.now_ms;
    while world.now_ms < began_ms + SCAN_MS - 100 {
        world.turn(50);
    }
    assert!(!world.source.places.is_empty(), "there was a scan");
    let events = world.take_events();
    assert!(matches!(events.as_slice(), [Event::Gone(gone, _)] if *gone == id), "{events:?}");
}

#[test]
fn a_qemu_that_hangs_is_reported_and_so_is_its_return() {
    let mut world = World::new();
    let (mut qemu, id, _) = world.found("a");
    qemu.is_stopped = true;
    world.source.set_target(id, Bytes(400 * MIB), world.now_ms);
    world.source.ask_stats(id, world.now_ms);
    world.turn(4_999);
    assert_eq!(world.take_events(), []);
    world.turn(1);
    assert_eq!(world.take_events(), [Event::Answers(id, false)]);
    for _ in 0..1_000 {
        world.source.set_target(id, Bytes(300 * MIB), world.now_ms);
        world.source.ask_stats(id, world.now_ms);
        world.source.ask_actual(id, world.now_ms);
        world.turn(10);
    }
    assert_eq!(world.take_events(), []);
    qemu.is_stopped = false;
    world.talk(&mut qemu);
    assert_eq!(world.take_events().first(), Some(&Event::Answers(id, true)));
    assert_eq!(qemu.targets, [400 * MIB, 300 * MIB], "only the newest has waited");
    assert_eq!(qemu.interval_s, 0);
}

#[test]
fn parked_guest_is_not_reported_for_its_stopped_qemu() {
    let mut world = World::new();
    let (mut qemu, id, _) = world.found("a");
    qemu.event("STOP", &json!({}));
    world.turn(1);
    assert_eq!(world.take_events(), [Event::State(id, RunState::Paused(Pause::ByHand))]);
    qemu.is_stopped = true;
    world.source.ask_actual(id, world.now_ms);
    world.turn(60_000);
    assert_eq!(world.take_events(), []);
    // A request from before the stop is not late when QEMU resumes.
    qemu.event("RESUME", &json!({}));
    world.turn(1);
    world.turn(4_000);
    assert_eq!(world.take_events(), [Event::State(id, RunState::Running)]);
    world.turn(1_000);
    assert_eq!(world.take_events(), [Event::Answers(id, false)], "now it hangs");
}

#[test]
fn a_qemu_that_does_not_describe_itself_is_no_guest() {
    let mut world = World::new();
    let mut qemu = Qemu::bind(&world.socket("a"));
    world.turn(0);
    qemu.accept();
    qemu.greet();
    world.turn(0);
    qemu.serve();
    qemu.is_stopped = true;
    world.turn(0);
    world.turn(5_000);
    trouble(&mut world, "does not identify itself");
    assert!(qemu.stream_is_closed());
}

#[test]
fn slow_qemu_has_more_time_with_each_try() {
    let mut world = World::new();
    let mut qemu = Qemu::bind(&world.socket("a"));
    let mut lasted_ms = Vec::new();
    while lasted_ms.len() < 5 {
        while world.source.places.values().all(|place| place.link().is_none()) {
            world.turn(1_000);
        }
        qemu.accept();
        qemu.greet();
        world.turn(0);
        qemu.is_stopped = false;
        qemu.serve();
        qemu.is_stopped = true;
        world.turn(0);
        let began_ms = world.now_ms;
        while world.source.places.values().any(|place| place.link().is_some()) {
            world.turn(1_000);
        }
        lasted_ms.push(world.now_ms - began_ms);
    }
    assert_eq!(lasted_ms, [5_000, 10_000, 20_000, 30_000, 30_000]);
}

#[test]
fn nonsense_ends_the_connection_and_nothing_else() {
    let mut world = World::new();
    let (mut good, other, _) = world.found("good");
    let (mut bad, id, _) = world.found("bad");
    // A few invalid lines are tolerated.
    assert!(bad.send_bytes(b"\xff\xff\r\n{}\r\n"));
    world.talk(&mut bad);
    assert_eq!(world.take_events(), []);
    assert!(bad.send_bytes(&b"[1]\r\n".repeat(100)));
    world.turn(0);
    let events = world.take_events();
    let [Event::Gone(gone, why)] = events.as_slice() else { panic!("{events:?}") };
    assert!(*gone == id && why.contains("does not send valid QMP"), "{why}");
    world.source.set_target(other, Bytes(MIB), world.now_ms);
    world.talk(&mut good);
    assert_eq!(world.take_events(), [Event::Taken(other, Bytes(MIB))]);
}

#[test]
fn nonsense_instead_of_a_greeting_is_no_guest() {
    let mut world = World::new();
    let mut qemu = Qemu::bind(&world.socket("a"));
    world.turn(0);
    qemu.accept();
    assert!(qemu.send_bytes(&b"SSH-2.0-x\r\n".repeat(20)));
    world.turn(0);
    trouble(&mut world, "No guest at");
}

#[test]
fn answers_of_the_wrong_shape_are_missing_and_not_zero() {
    let mut world = World::new();
    let mut qemu = Qemu::bind(&world.socket("a"));
    world.turn(0);
    qemu.accept();
    qemu.greet();
    world.turn(0);
    qemu.send(&json!({ "return": {}, "id": 0 }));
    world.turn(0);
    for id in 1..=12 {
        qemu.send(&json!({ "return": -1, "id": id }));
    }
    world.turn(0);
    trouble(&mut world, "the size of its memory");
}

#[test]
fn a_close_in_the_middle_of_an_answer_is_an_end() {
    let mut world = World::new();
    let (mut qemu, id, _) = world.found("a");
    world.source.set_target(id, Bytes(MIB), world.now_ms);
    assert!(qemu.send_bytes(b"{\"return\": {"));
    world.turn(0);
    qemu.close();
    world.turn(0);
    assert_eq!(world.take_events(), [Event::Gone(id, "QEMU has exited".into())]);
    // The guest is gone, so a request for it is ignored.
    world.source.set_target(id, Bytes(MIB), world.now_ms);
    world.turn(0);
    assert_eq!(world.take_events(), []);
}

#[test]
fn a_flood_is_read_within_a_budget_and_reported_once_a_turn() {
    let mut world = World::new();
    let (mut qemu, id, _) = world.found("a");
    let timestamp = json!({ "seconds": 1, "microseconds": 0 });
    let line = |n: u64| {
        let data = json!({ "actual": n });
        let event = json!({ "event": "BALLOON_CHANGE", "data": data, "timestamp": timestamp });
        format!("{event}\r\n").into_bytes()
    };
    let (mut sent, mut turns) = (0, 0);
    while !world.source.places.values().all(|p| p.link().unwrap().is_over_budget()) {
        while qemu.send_bytes(&line(sent)) {
            sent += 1;
        }
        world.turn(0);
        turns += 1;
        assert!(world.take_events().len() <= 1, "once a turn at most");
        assert!(turns < 1_000, "it is read forever");
    }
    // The connection is not polled until its budget has grown again.
    let links = || world.source.places.values().filter_map(|place| place.link());
    assert!(links().all(|link| !link.flags().contains(PollFlags::IN)));
    assert!(world.source.next_ms() > world.now_ms);
    world.turn(250);
    let mut set = PollSet::new();
    world.source.fds(&mut set);
    assert_eq!(set.len(), 1);
    // The end of the connection is still noticed.
    drop(set);
    drop(qemu);
    let key = world.source.places.values().next().unwrap().key;
    let ended = [reactor::Event { owner: 0, key, flags: PollFlags::IN | PollFlags::HUP }];
    world.take_events();
    for _ in 0..200 {
        world.source.turn(Some(&ended), world.now_ms, &mut world.events);
    }
    let events = world.take_events();
    assert!(matches!(events.last(), Some(Event::Gone(gone, _)) if *gone == id), "{events:?}");
}

#[test]
fn drops_cost_more_than_their_bytes() {
    let mut world = World::new();
    let (mut qemu, _, _) = world.found("a");
    let mut drops = 0;
    while !world.source.places.values().all(|p| p.link().unwrap().is_over_budget()) {
        assert!(qemu.send_bytes(b" "));
        world.turn(0);
        drops += 1;
        assert!(drops < 5_000, "each of them wakes us");
    }
}

#[test]
fn patterns_that_mean_nothing_are_refused() {
    let error = QmpSource::new(&["run/*.qmp"], Trust::default(), IdSource::new()).unwrap_err();
    assert!(error.to_string().contains("\"run/*.qmp\" is not an absolute path"));
}

#[test]
fn a_machine_without_guests_is_no_trouble() {
    let mut source =
        QmpSource::new(&["/nowhere/at/all/*.qmp"], Trust::default(), IdSource::new()).unwrap();
    let mut events = Vec::new();
    source.turn(None, 0, &mut events);
    source.turn(None, 2_000, &mut events);
    assert_eq!(events, []);
    assert_eq!(source.next_ms(), 4_000);
}

#[test]
fn directories_that_may_not_be_read_are_one_sentence() {
    let words = |count: usize| cannot_look(&vec![PathBuf::from("/run/user/7"); count]);
    assert_eq!(words(0), None);
    assert!(
        words(1).is_some_and(|w| w.contains("search /run/user/7 for QMP sockets: run as root"))
    );
    assert!(words(9).is_some_and(|w| w.contains("/run/user/7 and 8 more directories")));
}
