//! Lifecycle of a guest: found, queried, migrated, gone.

use serde_json::json;

use super::qemu::MIB;
use super::*;
use crate::{Machine, Pause, Pinned, RunState, balloon_row};
use model::GuestField as G;

#[test]
fn a_guest_is_found_with_what_it_can() {
    let mut world = World::new();
    let own = std::process::id();
    world.process(4242);
    let (_qemu, _, found) = world.found("a");
    assert_eq!((found.name.as_str(), found.uuid[15]), ("web1", 0xFF));
    assert_eq!(found.process, Some(ProcessId { pid: own, start_ticks: 4242 }));
    assert_eq!((found.memory, found.actual), (Bytes(512 * MIB), Bytes(512 * MIB)));
    assert_eq!(found.ram, [Bytes(512 * MIB)]);
    assert_eq!(found.vcpu_tids, [71], "72 is no thread of this process");
    assert_eq!(found.port, Some(PathBuf::from("/run/web1.port")));
    assert_eq!(found.state, RunState::Running);
    assert_eq!(found.source, world.socket("a").display().to_string());
    let can = found.can;
    assert!(can.balloon && can.statistics && can.port);
    assert_eq!((can.deflate_on_oom, can.page_reporting), (Some(true), None));
}

#[test]
fn finding_04_a_guest_is_no_larger_than_its_process() {
    let mut world = World::new();
    let own = std::process::id();
    world.process(4242);
    let page = rustix::param::page_size() as u64;
    world.tree.file(&format!("proc/{own}/statm"), "2560 2560 800 1 0 1000 0\n");
    world.tree.file(&format!("proc/{own}/status"), "Name:\tfake\n");
    let (_qemu, _, found) = world.found("a");
    let mapped = Bytes(2560 * page);
    assert!(mapped < Bytes(512 * MIB));
    assert_eq!((found.memory, found.actual), (mapped, mapped), "QEMU claims 512 MiB");
}

#[test]
fn report_h06_device_that_has_the_memory_is_known_before() {
    let mut world = World::new();
    let mut qemu = Qemu::bind(&world.socket("a"));
    qemu.has_passed_device = true;
    let (_qemu, _, found) = world.found_as(qemu);
    assert_eq!(found.can.pinned, Some(Pinned::Device));
    assert_eq!(world.found("b").2.can.pinned, None);
}

#[test]
fn report_h02_memory_is_found_when_it_is_plugged_and_unplugged() {
    let mut world = World::new();
    let (mut qemu, id, _) = world.found("a");
    let asks = |world: &mut World, qemu: &mut Qemu| {
        world.source.ask_actual(id, world.now_ms);
        world.talk(qemu);
        world.take_events()
    };
    let machine = |mib| {
        let vcpu_tids = vec![];
        let ram = vec![Bytes(512 * MIB), Bytes((mib - 512) * MIB)];
        let ram = ram.into_iter().filter(|size| *size > Bytes::ZERO).collect();
        Event::Machine(id, Machine { memory: Bytes(mib * MIB), ram, vcpu_tids })
    };
    assert_eq!(asks(&mut world, &mut qemu), [Event::Actual(id, Bytes(512 * MIB))]);
    qemu.plugged = 256 * MIB;
    assert_eq!(asks(&mut world, &mut qemu), [Event::Actual(id, Bytes(768 * MIB))]);
    // The balloon is larger than the known memory, so the machine is queried, unless it was queried
    // just before.
    world.now_ms += 10_000;
    assert!(asks(&mut world, &mut qemu).contains(&machine(768)));
    qemu.plugged = 0;
    qemu.event("DEVICE_DELETED", &json!({ "path": "/machine/peripheral/dimm0" }));
    world.talk(&mut qemu);
    world.now_ms += 60_000;
    assert!(asks(&mut world, &mut qemu).contains(&machine(512)));
}

/// The balloon of this QEMU exceeds the memory, and its memory blocks differ in each response.
#[test]
fn report_h02_machine_that_changes_all_the_time_is_asked_seldom() {
    let mut world = World::new();
    let (mut qemu, id, found) = world.found("a");
    qemu.balloon_lies = 1024 * MIB;
    qemu.asked.clear();
    let (mut ram, mut repieced) = (found.ram, 0);
    for second in 0..120 {
        qemu.plugged = (second / 10 % 2) * 256 * MIB;
        world.now_ms += 1_000;
        world.source.ask_actual(id, world.now_ms);
        world.talk(&mut qemu);
        for event in world.take_events() {
            let Event::Machine(_, machine) = event else { continue };
            repieced += u32::from(ram != machine.ram);
            ram = machine.ram;
        }
    }
    let asked = qemu.asked.iter().filter(|name| *name == "query-cpus-fast").count();
    assert_eq!((asked, repieced), (12, 2), "each 10 s and each minute");
}

#[test]
fn report_h03_a_virtual_cpu_is_found_when_it_is_plugged() {
    let mut world = World::new();
    world.process(4242);
    let (mut qemu, id, found) = world.found("a");
    assert_eq!(found.vcpu_tids, [71]);
    world.tree.file(&format!("proc/{}/task/73/schedstat", std::process::id()), "");
    qemu.tids = vec![71, 73];
    // QEMU has no event for a plugged vCPU, so the next request for the machine finds it.
    world.now_ms += 60_000;
    world.source.ask_actual(id, world.now_ms);
    world.talk(&mut qemu);
    let Found { memory, ram, .. } = found;
    let machine = Machine { memory, ram, vcpu_tids: vec![71, 73] };
    assert!(world.take_events().contains(&Event::Machine(id, machine)));
}

#[test]
fn report_h16_memory_by_virtio_mem_counts_beside_the_balloon() {
    let mut world = World::new();
    let mut qemu = Qemu::bind(&world.socket("a"));
    qemu.virtio_mem = 256 * MIB;
    let (mut qemu, id, found) = world.found_as(qemu);
    assert_eq!((found.memory, found.actual), (Bytes(768 * MIB), Bytes(768 * MIB)));
    assert_eq!(found.ram, [Bytes(512 * MIB), Bytes(1024 * MIB)], "the device's maximum size");
    for mib in [656, 100] {
        world.source.set_target(id, Bytes(mib * MIB), world.now_ms);
        world.talk(&mut qemu);
        assert_eq!(world.take_events(), [Event::Taken(id, Bytes(mib * MIB))]);
    }
    assert_eq!(qemu.targets, [400 * MIB, MIB], "without virtio-mem");
    qemu.virtio_mem = 64 * MIB;
    qemu.event("MEMORY_DEVICE_SIZE_CHANGE", &json!({ "size": 64 * MIB, "id": "vm0" }));
    world.talk(&mut qemu);
    world.now_ms += 10_000;
    world.source.ask_actual(id, world.now_ms);
    world.talk(&mut qemu);
    let machine = Machine { memory: Bytes(576 * MIB), ram: found.ram, vcpu_tids: vec![] };
    let events = world.take_events();
    assert_eq!(events, [Event::Machine(id, machine), Event::Actual(id, Bytes(576 * MIB))]);
}

#[test]
fn report_h04_attached_port_and_balloon_are_noticed() {
    let mut world = World::new();
    let mut qemu = Qemu::bind(&world.socket("a"));
    (qemu.has_balloon, qemu.has_port) = (false, false);
    let (mut qemu, id, found) = world.found_as(qemu);
    assert!(!found.can.balloon && !found.can.port && found.port.is_none());
    (qemu.has_balloon, qemu.has_port) = (true, true);
    let asks = |world: &mut World, qemu: &mut Qemu, passed_ms| {
        world.now_ms += passed_ms;
        world.source.ask_actual(id, world.now_ms);
        world.talk(qemu);
        world.take_events()
    };
    assert_eq!(asks(&mut world, &mut qemu, 1_000), [], "no probe yet");
    let events = asks(&mut world, &mut qemu, 60_000);
    let devices = events.iter().find_map(|event| match event {
        Event::Devices(of, can, port) => Some((*of, *can, port.clone())),
        _ => None,
    });
    let (of, can, port) = devices.expect("they were attached");
    assert!(of == id && can.balloon && can.statistics && can.port);
    assert_eq!(port, Some(PathBuf::from("/run/web1.port")));
    world.source.set_target(id, Bytes(400 * MIB), world.now_ms);
    world.talk(&mut qemu);
    assert_eq!(qemu.targets, [400 * MIB]);
    world.take_events();
    let again = asks(&mut world, &mut qemu, 60_000);
    assert!(!again.iter().any(|event| matches!(event, Event::Devices(..))), "{again:?}");
}

#[test]
fn report_h13_empty_name_is_replaced_by_the_sockets() {
    let mut world = World::new();
    let mut qemu = Qemu::bind(&world.socket("a"));
    qemu.name = "";
    let (_qemu, _, found) = world.found_as(qemu);
    assert_eq!(found.name, "a");
}

/// A QEMU in a container names its threads by the container's numbers.
#[test]
fn report_h09_threads_of_a_container_are_found_here() {
    let mut world = World::new();
    world.process(4242);
    let own = std::process::id();
    let status = |number: &str| format!("Name:\tqemu\nNSpid:\t{number}\n");
    world.tree.file(&format!("proc/{own}/status"), &status(&format!("{own}\t1")));
    for (here, there) in [(57, 5), (58, 71), (5, 9)] {
        let task = format!("proc/{own}/task/{here}");
        world.tree.file(&format!("{task}/status"), &status(&format!("{here}\t{there}")));
    }
    let mut qemu = Qemu::bind(&world.socket("a"));
    qemu.tids = vec![71, 5, 72];
    let (_qemu, id, found) = world.found_as(qemu);
    assert_eq!(found.process.map(|process| process.pid), Some(own));
    assert_eq!(found.vcpu_tids, [58, 57], "5 and 71 are other threads here");
    assert!(world.source.guests.contains_key(&id));
}

#[test]
fn without_a_balloon_nothing_is_promised() {
    let mut world = World::new();
    let mut qemu = Qemu::bind(&world.socket("a"));
    qemu.has_balloon = false;
    qemu.status = "postmigrate";
    world.turn(0);
    qemu.accept();
    qemu.greet();
    world.talk(&mut qemu);
    let events = world.take_events();
    let [Event::Found(id, found)] = events.as_slice() else { panic!("{events:?}") };
    assert!(!found.can.balloon && !found.can.statistics);
    assert_eq!((found.can.deflate_on_oom, found.process), (None, None));
    assert_eq!((found.actual, found.state), (Bytes(512 * MIB), RunState::Migrating));
    world.source.set_target(*id, Bytes(MIB), world.now_ms);
    world.source.ask_stats(*id, world.now_ms);
    assert_eq!(world.source.next_ms(), 0);
    world.talk(&mut qemu);
    assert_eq!(world.take_events(), [Event::Refused(*id, "it has no balloon device".into())]);
    assert_eq!((qemu.targets.len(), qemu.intervals.len()), (0, 0));
}

#[test]
fn only_the_newest_target_waits_while_one_is_open() {
    let mut world = World::new();
    let (mut qemu, id, _) = world.found("a");
    for mib in [400, 300, 200] {
        world.source.set_target(id, Bytes(mib * MIB), world.now_ms);
    }
    world.talk(&mut qemu);
    assert_eq!(qemu.targets, [400 * MIB, 200 * MIB]);
    let taken = [400, 200].map(|mib| Event::Taken(id, Bytes(mib * MIB)));
    assert_eq!(world.take_events(), taken);
    qemu.refusal = Some("no");
    world.source.set_target(id, Bytes(MIB), world.now_ms);
    qemu.event("BALLOON_CHANGE", &json!({ "actual": 450 * MIB }));
    qemu.event("BALLOON_CHANGE", &json!({ "actual": 400 * MIB }));
    world.talk(&mut qemu);
    let actual = Event::Actual(id, Bytes(400 * MIB));
    assert_eq!(world.take_events(), [actual, Event::Refused(id, "no".into())]);
}

#[test]
fn statistics_cost_one_wake_up_and_leave_nothing_behind() {
    let mut world = World::new();
    let (mut qemu, id, _) = world.found("a");
    for round in 1..=2 {
        world.source.ask_stats(id, world.now_ms);
        world.source.ask_stats(id, world.now_ms);
        world.talk(&mut qemu);
        world.turn(10);
        world.talk(&mut qemu);
        let values = [
            (G::BalloonTotal, Some(500 * MIB)),
            (G::BalloonFree, Some(512 * MIB)),
            (G::BalloonSwapIn, Some(4096)),
            (G::BalloonMajorFaults, Some(9)),
        ];
        let stats = balloon_row(round, Bytes(u64::MAX), values);
        let expected = [Event::Stats(id, stats)];
        assert_eq!(world.take_events(), expected, "capped at its memory");
        assert_eq!((qemu.updated_s, qemu.interval_s), (round, 0));
        // Recent statistics are reported again, and the guest is not woken.
        world.source.ask_stats(id, world.now_ms);
        assert_eq!(world.source.next_ms(), 0);
        world.talk(&mut qemu);
        assert_eq!(world.take_events(), expected);
        assert_eq!(qemu.updated_s, round);
        world.turn(1_000);
    }
    // Another manager's interval is restored afterwards.
    qemu.interval_s = 2;
    world.source.ask_stats(id, world.now_ms);
    world.talk(&mut qemu);
    world.turn(10);
    world.talk(&mut qemu);
    assert_eq!((world.take_events().len(), qemu.interval_s), (1, 2));
}

#[test]
fn a_driver_that_does_not_answer_is_asked_twice_and_given_up() {
    let mut world = World::new();
    let (mut qemu, id, _) = world.found("a");
    qemu.driver_answers = false;
    qemu.updated_s = 7;
    world.source.ask_stats(id, world.now_ms);
    let began_ms = world.now_ms;
    let mut turns = 0;
    while world.now_ms < began_ms + 3_000 {
        world.talk(&mut qemu);
        let wait_ms = world.source.next_ms().saturating_sub(world.now_ms);
        assert!(wait_ms > 0, "it spins");
        world.turn(wait_ms.min(500));
        turns += 1;
    }
    assert!(turns < 60, "{turns}");
    assert_eq!(world.take_events(), []);
    assert_eq!((qemu.intervals.len(), qemu.interval_s), (4, 0), "{:?}", qemu.intervals);
    // A response to the second request counts, because the first may have been sent before the
    // driver was ready.
    world.source.ask_stats(id, world.now_ms);
    world.talk(&mut qemu);
    world.turn(900);
    qemu.driver_answers = true;
    for _ in 0..8 {
        world.talk(&mut qemu);
        world.turn(100);
    }
    let events = world.take_events();
    let [Event::Stats(_, stats)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(stats.get(G::BalloonTime), Some(8_000_000_000));
}

#[test]
fn no_guest_is_left_asked_when_the_source_ends() {
    let mut world = World::new();
    let (mut qemu, id, _) = world.found("a");
    qemu.driver_answers = false;
    world.source.ask_stats(id, world.now_ms);
    world.talk(&mut qemu);
    assert_ne!(qemu.interval_s, 0);
    let World { tree, source, .. } = world;
    drop(source);
    qemu.serve();
    assert_eq!(qemu.interval_s, 0);
    drop(tree);
}

#[test]
fn events_report_how_a_guest_runs() {
    let mut world = World::new();
    let (mut qemu, id, _) = world.found("a");
    let mut after = |qemu: &mut Qemu, name: &str, status: &'static str| {
        qemu.status = status;
        qemu.event(name, &json!({ "reason": "guest-shutdown" }));
        world.talk(qemu);
        world.take_events()
    };
    let state = |state| vec![Event::State(id, state)];
    assert_eq!(after(&mut qemu, "STOP", "paused"), state(RunState::Paused(Pause::ByHand)));
    assert_eq!(after(&mut qemu, "RESUME", "running"), state(RunState::Running));
    let events = after(&mut qemu, "RESET", "running");
    assert_eq!(events, [Event::Rebooted(id), Event::Actual(id, Bytes(512 * MIB))]);
    // The guest has migrated away. Only QEMU's status shows this, and the event does not.
    let events = after(&mut qemu, "STOP", "postmigrate");
    assert_eq!(events.last(), Some(&Event::State(id, RunState::Migrating)));
    assert_eq!(after(&mut qemu, "SHUTDOWN", "shutdown"), state(RunState::Dead));
    assert_eq!(after(&mut qemu, "STOP", "shutdown"), []);
    qemu.close();
    world.turn(0);
    let reason = "QEMU has exited: guest-shutdown";
    assert_eq!(world.take_events(), [Event::Gone(id, reason.into())]);
}

#[test]
fn a_migration_is_seen_by_its_event_and_by_asking() {
    let mut world = World::new();
    let (mut qemu, id, _) = world.found("a");
    qemu.event("MIGRATION", &json!({ "status": "active" }));
    world.talk(&mut qemu);
    assert_eq!(world.take_events(), [Event::State(id, RunState::Migrating)]);
    qemu.event("MIGRATION", &json!({ "status": "failed" }));
    world.talk(&mut qemu);
    assert_eq!(world.take_events(), [Event::State(id, RunState::Running)]);
    qemu.migration = Some("active");
    world.source.ask_actual(id, world.now_ms);
    world.talk(&mut qemu);
    let events = world.take_events();
    assert!(events.contains(&Event::State(id, RunState::Migrating)), "{events:?}");
    assert!(events.contains(&Event::Actual(id, Bytes(512 * MIB))), "{events:?}");
}

#[test]
fn disk_counters_of_guest_are_reported_on_request() {
    let mut world = World::new();
    world.process(1);
    let (mut qemu, id, _) = world.found("a");
    world.source.ask_blocks(id, world.now_ms);
    world.source.ask_blocks(id, world.now_ms);
    world.talk(&mut qemu);
    let both = crate::BlockStats { reads: 6, read_bytes: 8192, writes: 4, write_bytes: 2048 };
    assert_eq!(world.take_events(), [Event::Blocks(id, both)]);
    world.talk(&mut qemu);
    assert_eq!(world.take_events(), []);
}

#[test]
fn a_restarted_guest_is_another() {
    let mut world = World::new();
    world.process(1);
    let (qemu, first, before) = world.found("a");
    drop(qemu);
    world.turn(0);
    assert!(matches!(world.take_events().as_slice(), [Event::Gone(id, _)] if *id == first));
    world.process(2);
    let (_qemu, second, after) = world.found("a");
    assert_ne!(first, second);
    assert_ne!(before.process, after.process);
    assert_eq!(before.uuid, after.uuid);
}

#[test]
fn two_monitors_of_one_guest_are_one_guest() {
    let mut world = World::new();
    world.process(1);
    let (first, id, _) = world.found("a");
    let mut second = Qemu::bind(&world.socket("b"));
    world.turn(SCAN_MS);
    second.accept();
    second.greet();
    world.talk(&mut second);
    assert_eq!(world.take_events(), []);
    // When the first monitor is closed, the second monitor replaces it.
    drop(first);
    world.turn(0);
    assert!(matches!(world.take_events().as_slice(), [Event::Gone(gone, _)] if *gone == id));
    world.turn(30_000);
    second.accept();
    second.greet();
    world.talk(&mut second);
    assert!(matches!(world.take_events().last(), Some(Event::Found(_, _))));
}

/// Returns the events for a QEMU at its second check. The kernel reports a process without the
/// QEMU's threads and with this many pages.
fn liar(pages: u64) -> Vec<Event> {
    let mut world = World::new();
    let own = std::process::id();
    world.tree.process(own, "liar", 'S', 1);
    world.tree.file(&format!("proc/{own}/statm"), &format!("{pages} 2560 800 1 0 1000 0\n"));
    world.tree.file(&format!("proc/{own}/status"), "Name:\tliar\n");
    let mut qemu = Qemu::bind(&world.socket("a"));
    world.turn(0);
    qemu.accept();
    qemu.greet();
    world.talk(&mut qemu);
    assert_eq!(world.take_events(), [], "the guest is queried a second time first");
    world.turn(200);
    qemu.accept();
    qemu.greet();
    world.talk(&mut qemu);
    world.take_events()
}

#[test]
fn report_h09_listener_counts_where_its_threads_are_nobodys() {
    let room = 513 * MIB / rustix::param::page_size() as u64;
    let events = liar(room);
    let [Event::Found(_, found)] = events.as_slice() else { panic!("{events:?}") };
    let process = Some(ProcessId { pid: std::process::id(), start_ticks: 1 });
    assert_eq!((found.process, found.vcpu_tids.len()), (process, 0));
    assert_eq!(found.memory, Bytes(512 * MIB));
}

/// If the program were mistaken for QEMU, the guest's memory would be limited to the few pages of
/// the program.
#[test]
fn report_h09_program_before_a_monitor_is_named() {
    let events = liar(2560);
    let [Event::Trouble(words)] = events.as_slice() else { panic!("{events:?}") };
    assert!(words.contains("connect the monitor directly to QEMU"), "{words}");
}

#[test]
fn guests_with_rules_only_are_left_out_on_request() {
    for leaves in [false, true] {
        let mut world = World::new();
        world.tree.file(&format!("run/{}", qmp::RULES_ONLY), "");
        world.source.leaves_rules_only = leaves;
        let _qemu = Qemu::bind(&world.socket("g1"));
        world.turn(SCAN_MS);
        assert_eq!(world.source.places.is_empty(), leaves);
    }
}
