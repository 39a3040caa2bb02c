//! The whole manager with fake guests and a manual clock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::scene::{FOUR, GIB, Scene, write_meminfo};
use base::Bytes;
use hypervisor::{
    Balloon, Capabilities, Event, Fake, Found, Id, Machine, Pause, ProcessId, RunState, balloon_row,
};
use manager::Options;
use model::GuestField as G;
use std::fs;
use store::{Fate, Journal, Range, kinds};

/// Returns the guests in the manager's answer to `ps`.
fn rows(scene: &mut Scene) -> Vec<serde_json::Value> {
    let answer = scene.ask(&mut scene.client(), r#"{"v":1,"id":1,"do":"ps"}"#).unwrap();
    answer["ok"]["guests"].as_array().unwrap().clone()
}

#[test]
fn host_below_its_set_point_takes_idle_memory_with_a_reason() {
    let mut scene = Scene::new("");
    let hoarder = scene.guest("hoarder", FOUR, Bytes::mib(500));
    let busy = scene.guest("busy", FOUR, Bytes::mib(3900));
    scene.run(5_000);
    assert_eq!((scene.actual(hoarder), scene.actual(busy)), (4096, 4096), "no guest lacks memory");
    write_meminfo(&scene.dir, GIB);
    scene.run(10_000);
    assert!(scene.actual(hoarder) < 3000, "{}", scene.actual(hoarder));
    assert_eq!(scene.actual(busy), 4096, "the busy guest has nothing to spare");
    let decisions = scene.decisions("hoarder");
    let shrink = decisions.iter().find(|d| d.decision.action == "shrink").unwrap();
    assert_eq!(shrink.decision.clause, "setpoint");
    assert!(shrink.decision.acted);
    assert_eq!(shrink.outcomes[0].fate, Fate::Reached);
    let available = shrink.decision.inputs.iter().find(|(name, _)| name == "host_available");
    assert_eq!(available.unwrap().1, Some(GIB as f64));
}

#[test]
fn a_dry_run_decides_and_moves_nothing() {
    let options = Options { dry_run: true, ..Options::default() };
    let mut scene = Scene::with("", options);
    let hoarder = scene.guest("hoarder", FOUR, Bytes::mib(500));
    write_meminfo(&scene.dir, GIB);
    scene.run(20_000);
    assert_eq!(scene.fake.targets(), []);
    assert_eq!(scene.actual(hoarder), 4096);
    let decisions = scene.decisions("hoarder");
    assert!(decisions.iter().any(|d| d.decision.action == "shrink"));
    assert!(decisions.iter().all(|d| !d.decision.acted));
    let notices = scene.manager.take_notices();
    assert!(notices.iter().any(|text| text == "Dry run: watching 1 guest, changing nothing"));
    let summary = scene.manager.finish();
    assert!(summary[0].starts_with("Dry run: the manager would have changed 1 of 1 guest, in "));
    assert!(summary[1].starts_with("hoarder: 4096 -> "), "{summary:?}");
}

#[test]
fn settings_without_act_are_a_dry_run_with_a_remedy() {
    let mut scene = Scene::new("[policy]\nact = false\n");
    let hoarder = scene.guest("hoarder", FOUR, Bytes::mib(500));
    write_meminfo(&scene.dir, GIB);
    scene.run(20_000);
    assert_eq!((scene.fake.targets(), scene.actual(hoarder)), (Vec::new(), 4096));
    let file = scene.dir.join("host.toml");
    let remedy = format!("set `act = true` in {} and start the manager again", file.display());
    let text = format!("watching 1 guest, changing nothing; {remedy}");
    assert!(scene.manager.take_notices().contains(&format!("Dry run: {text}")));
    let request = r#"{"v":1,"id":1,"do":"status"}"#;
    let status = scene.ask(&mut scene.client(), request).unwrap();
    assert_eq!(status["ok"]["host"]["watching"], text, "{status}");
    // A reload cannot start the keeper, so the new value needs a restart.
    fs::write(&file, "").unwrap();
    scene.manager.reload_and_report();
    let notices = scene.manager.take_notices().join("\n");
    assert!(notices.contains("[policy] act takes effect when the manager starts"), "{notices}");
    scene.run(20_000);
    assert_eq!(scene.actual(hoarder), 4096);
}

#[test]
fn unreachable_guest_is_held_and_other_guests_are_served() {
    let mut scene = Scene::new("");
    let paused = scene.guest("paused", FOUR, Bytes::mib(500));
    let silent = scene.guest("silent", FOUR, Bytes::mib(500));
    let bare = scene.guest("bare", FOUR, Bytes::mib(500));
    let good = scene.guest("good", FOUR, Bytes::mib(500));
    let refuses = scene.guest("refuses", FOUR, Bytes::mib(500));
    scene.fake.set_state(paused, RunState::Paused(Pause::ByHand));
    scene.fake.set_balloon(silent, Balloon::Silent);
    scene.fake.set_balloon(refuses, Balloon::Refuses("no balloon today".into()));
    scene.guests.retain(|(id, _)| *id != bare);
    write_meminfo(&scene.dir, GIB);
    scene.run(30_000);
    let asked = |id: Id| scene.fake.targets().iter().filter(|(_, to, _)| *to == id).count();
    assert_eq!((asked(paused), asked(silent), asked(bare)), (0, 0, 0));
    assert!(scene.actual(good) < 3500, "{}", scene.actual(good));
    let clauses = |name: &str| scene.clauses(name).join(" ");
    assert!(clauses("paused").contains("unusable"));
    assert!(clauses("silent").contains("unusable") || clauses("silent").contains("stale"));
    assert!(clauses("bare").contains("stale"));
    let reasons: Vec<String> =
        scene.decisions("bare").into_iter().map(|decided| decided.decision.detail).collect();
    let [first, last] = &reasons[..] else { panic!("{reasons:?}") };
    assert_eq!(first, "the guest has reported nothing yet");
    assert!(last.starts_with("its balloon reports no statistics"), "{last}");
    let fates: Vec<Fate> =
        scene.decisions("refuses").iter().flat_map(|d| &d.outcomes).map(|o| o.fate).collect();
    assert!(fates.contains(&Fate::Refused), "{fates:?}");
    assert!(asked(refuses) < 8, "{} tries of what is refused", asked(refuses));
}

#[test]
fn guest_without_balloon_driver_has_the_remedies_in_its_row() {
    let mut scene = Scene::new("");
    scene.fake.add(Fake::found("bare", FOUR));
    scene.run(15_000);
    let told = rows(&mut scene)[0]["unusable"].to_string();
    assert!(told.contains("load virtio_balloon") && told.contains("`pinhead set`"), "{told}");
}

#[test]
fn guests_are_listed_in_the_order_of_their_numbers() {
    let mut scene = Scene::new("");
    for name in ["vm10", "vm2", "vm1"] {
        scene.fake.add(Fake::found(name, FOUR));
    }
    scene.run(1_000);
    let names: Vec<_> = rows(&mut scene).iter().map(|row| row["name"].clone()).collect();
    assert_eq!(names, ["vm1", "vm2", "vm10"]);
}

#[test]
fn report_of_a_guest_that_hangs_is_told_as_too_old() {
    let mut scene = Scene::new("");
    let hung = scene.guest("hung", FOUR, Bytes::mib(500));
    write_meminfo(&scene.dir, GIB);
    scene.run(10_000);
    scene.guests.retain(|(id, _)| *id != hung);
    scene.fake.set_stats(hung, None);
    scene.run(60_000);
    let decided = scene.decisions("hung");
    let stale = decided.iter().filter(|decided| decided.decision.clause == "stale");
    let reasons: Vec<_> = stale.map(|decided| decided.decision.detail.as_str()).collect();
    assert!(reasons.contains(&"the guest's last report is too old"), "{reasons:?}");
    assert!(!reasons.iter().any(|reason| reason.contains("driver")), "{reasons:?}");
}

#[test]
fn a_stuck_balloon_is_left_out_within_its_time_and_reported() {
    let mut scene = Scene::new("");
    let stuck = scene.guest("stuck", FOUR, Bytes::mib(500));
    scene.fake.set_balloon(stuck, Balloon::Stuck);
    write_meminfo(&scene.dir, GIB);
    scene.run(10_000);
    assert!(scene.clauses("stuck").contains(&"stuck".to_owned()));
    let notices = scene.manager.take_notices().join("\n");
    assert!(notices.contains("The balloon of stuck does not move"), "{notices}");
    let (_, _, last) = *scene.fake.targets().last().unwrap();
    assert_eq!(last, FOUR, "the last target is the actual size");
}

#[test]
fn guest_gone_in_mid_move_leaves_an_outcome_and_no_state() {
    let mut scene = Scene::new("");
    let first = scene.guest("web", FOUR, Bytes::mib(500));
    scene.fake.set_balloon(first, Balloon::Slow(Bytes::mib(1)));
    write_meminfo(&scene.dir, GIB);
    scene.run(5_000);
    scene.fake.remove(first, "killed");
    scene.run(500);
    let second = scene.guest("web", FOUR, Bytes::mib(3900));
    scene.run(5_000);
    assert_ne!(first, second);
    assert_eq!(scene.actual(second), 4096, "the first guest's target is not inherited");
    let fates: Vec<Fate> =
        scene.decisions("web").iter().flat_map(|d| &d.outcomes).map(|o| o.fate).collect();
    assert!(fates.contains(&Fate::Gone), "{fates:?}");
}

#[test]
fn guest_moved_by_another_manager_is_noticed_and_left_alone() {
    let mut scene = Scene::new("");
    let guest = scene.guest("web", FOUR, Bytes::mib(500));
    scene.run(5_000);
    for size in [3000, 2500, 2000] {
        scene.fake.set_actual(guest, Bytes::mib(size));
        scene.run(3_000);
    }
    write_meminfo(&scene.dir, GIB);
    scene.run(30_000);
    assert_eq!(scene.fake.targets(), [], "the guest is the other manager's");
    let notices = scene.manager.take_notices().join("\n");
    assert!(notices.contains("Another program moves the balloon of web"), "{notices}");
    let journal = Journal::read_only(&scene.dir.join("journal.db")).unwrap();
    let range = Range { from_ms: 0, to_ms: i64::MAX };
    let keys: Vec<_> = journal.guests().unwrap().iter().map(|row| row.key).collect();
    let events = journal.events(&keys, range, 100).unwrap();
    assert!(events.iter().any(|found| found.event.kind == kinds::FOREIGN));
}

#[test]
fn process_found_twice_is_managed_once() {
    let mut scene = Scene::new("");
    let process = Some(hypervisor::ProcessId { pid: 4_000_000, start_ticks: 7 });
    for source in ["/run/a.qmp", "qemu:///system"] {
        let found = Fake::found("web", FOUR);
        scene.fake.add(hypervisor::Found { process, source: source.into(), ..found });
    }
    scene.run(1_000);
    assert_eq!(scene.manager.guests(), 1);
}

#[test]
fn settings_are_read_again_all_or_nothing() {
    let mut scene = Scene::new("[[class]]\nname = \"web\"\nmatch = [\"web*\"]\nmin = \"3 GiB\"\n");
    let guest = scene.guest("web1", FOUR, Bytes::mib(500));
    write_meminfo(&scene.dir, GIB);
    scene.run(15_000);
    assert_eq!(scene.actual(guest), 3072, "the class keeps 3 GiB for the guest");
    let file = scene.dir.join("host.toml");
    fs::write(&file, "[[class]]\nname = \"web\"\nmatch = [\"web*\"]\nmin = \"2 GiB\"\nmaxx = 1\n")
        .unwrap();
    scene.manager.reload_and_report();
    scene.run(10_000);
    assert_eq!(scene.actual(guest), 3072);
    let notices = scene.manager.take_notices().join("\n");
    assert!(
        notices.contains("the old settings stay in force") && notices.contains("maxx"),
        "{notices}"
    );
    fs::write(&file, "[[class]]\nname = \"web\"\nmatch = [\"web*\"]\nmin = \"2 GiB\"\n").unwrap();
    scene.manager.reload_and_report();
    scene.run(15_000);
    assert_eq!(scene.actual(guest), 2048);
}

#[test]
fn a_guest_in_need_gets_what_its_neighbour_has_to_spare() {
    let mut scene = Scene::new("");
    let hoarder = scene.guest("hoarder", FOUR, Bytes::mib(500));
    let starved = scene.guest("starved", FOUR, Bytes::mib(500));
    write_meminfo(&scene.dir, GIB);
    scene.run(20_000);
    // The host stays at its reserve, so only the memory that the hoarder still returns is free.
    write_meminfo(&scene.dir, 500 << 20);
    scene.run(5_000);
    let before = scene.actual(starved);
    scene.uses(starved, Bytes::mib(before + 200));
    scene.run(1_000);
    write_meminfo(&scene.dir, 900 << 20);
    scene.run(10_000);
    assert!(scene.actual(starved) > before, "{before} -> {}", scene.actual(starved));
    assert!(scene.actual(hoarder) >= 614, "the minimum is 15 % of 4 GiB");
    assert!(scene.clauses("starved").contains(&"need".to_owned()));
}

#[test]
fn a_rebooted_guest_is_another_one_in_the_journal() {
    let mut scene = Scene::new("");
    let guest = scene.guest("web", FOUR, Bytes::mib(500));
    write_meminfo(&scene.dir, GIB);
    scene.run(8_000);
    scene.fake.emit(Event::Rebooted(guest));
    scene.run(8_000);
    let journal = Journal::read_only(&scene.dir.join("journal.db")).unwrap();
    let boots: Vec<String> =
        journal.guests().unwrap().into_iter().map(|row| row.guest.boot).collect();
    assert_eq!(boots.len(), 2, "{boots:?}");
}

/// The guest's process has too little resident memory to support a claim above its actual size.
#[test]
fn ordered_minimum_is_given_by_the_manager() {
    let mut scene = Scene::kept("");
    let process = ProcessId::of(std::process::id());
    let found = Found { process, actual: Bytes::mib(1024), ..Fake::found("web", FOUR) };
    let guest = scene.fake.add(found);
    let free = [G::BalloonFree, G::BalloonAvailable].map(|field| (field, Some(900 << 20)));
    scene.fake.set_stats(guest, Some(balloon_row(1, FOUR, free)));
    scene.run(5_000);
    assert_eq!(scene.actual(guest), 1024);
    let mut client = scene.client();
    let request = r#"{"v":1,"id":1,"do":"set","guest":"web","what":"min","value":"2 GiB"}"#;
    scene.ask(&mut client, request);
    scene.run(10_000);
    assert!(scene.actual(guest) >= 2048, "{:?}", scene.decisions("web"));
}

/// A DIMM plugged by the operator counts as guest memory, whatever the balloon's target is.
#[test]
fn report_h02_a_guest_has_what_was_plugged_into_it() {
    let mut scene = Scene::kept("");
    let guest = scene.guest("hot", Bytes::mib(256), Bytes::mib(100));
    scene.run(3_000);
    let mut client = scene.client();
    let mut has_of = |scene: &mut Scene| {
        let row = scene.ask(&mut client, r#"{"v":1,"id":1,"do":"ps"}"#).unwrap();
        let row = &row["ok"]["guests"][0];
        (row["actual_bytes"].as_u64().unwrap() >> 20, row["memory_bytes"].as_u64().unwrap() >> 20)
    };
    assert_eq!(has_of(&mut scene), (256, 256));
    let machine = |mib| Machine { memory: Bytes::mib(mib), ram: Vec::new(), vcpu_tids: Vec::new() };
    scene.fake.set_actual(guest, Bytes::mib(512));
    scene.fake.emit(Event::Machine(guest, machine(512)));
    scene.run(5_000);
    assert_eq!(has_of(&mut scene), (512, 512));
    let clauses = scene.clauses("hot");
    assert!(!clauses.iter().any(|clause| clause == "foreign"), "{clauses:?}");
    let mut other = scene.client();
    scene.ask(
        &mut other,
        r#"{"v":1,"id":1,"do":"set","guest":"hot","what":"pin","value":"200 MiB"}"#,
    );
    scene.run(20_000);
    scene.ask(&mut other, r#"{"v":1,"id":1,"do":"set","guest":"hot","what":"release"}"#);
    scene.run(3_000);
    let targets: Vec<u64> = scene.fake.targets().iter().map(|(.., to)| to.0 >> 20).collect();
    let pinned = targets.iter().position(|mib| *mib == 200).expect("pinned");
    assert!(targets[pinned..].contains(&512), "the DIMM is taken away: {targets:?}");
}

#[test]
fn report_h09_guest_without_a_process_counts_in_a_budget() {
    let mut scene = Scene::kept("[host]\nbudget = \"6 GiB\"\n");
    let first = scene.guest("one", FOUR, Bytes::mib(500));
    let second = scene.guest("two", FOUR, Bytes::mib(500));
    scene.run(2_000);
    let notices = scene.manager.take_notices();
    let told = notices.iter().filter(|text| text.starts_with("The process of one is not"));
    assert_eq!(told.count(), 1, "{notices:?}");
    scene.run(30_000);
    let has = scene.actual(first) + scene.actual(second);
    assert!(has < 6 << 10, "a budget of 6 GiB is overrun: {has} MiB");
}

/// Guests of one image, in containers and without a UUID, differ in the paths of their monitors.
#[test]
fn report_h13_namesakes_are_named_by_their_monitors() {
    let mut scene = Scene::kept("");
    let at =
        |path: &str| Found { source: path.into(), uuid: [0; 16], ..Fake::found("windows", FOUR) };
    let first = scene.fake.add(at("/run/a/windows.qmp"));
    scene.fake.add(at("/run/b/windows.qmp"));
    scene.run(2_000);
    let mut client = scene.client();
    let rows = scene.ask(&mut client, r#"{"v":1,"id":1,"do":"ps"}"#).unwrap();
    let uuids: Vec<_> = (0..2).map(|at| rows["ok"]["guests"][at]["uuid"].clone()).collect();
    assert_eq!(uuids, ["/run/a/windows.qmp", "/run/b/windows.qmp"]);
    let mut pin = |scene: &mut Scene, guest: &str| {
        let set = format!(
            r#"{{"v":1,"id":1,"do":"set","guest":"{guest}","what":"pin","value":"1 GiB"}}"#
        );
        scene.ask(&mut client, &set).unwrap()
    };
    let error = pin(&mut scene, "windows")["error"].to_string();
    assert!(error.contains("/run/a/windows.qmp, /run/b/windows.qmp"), "{error}");
    assert!(pin(&mut scene, "00000000-0000-0000-0000-000000000000")["ok"].is_null());
    assert!(pin(&mut scene, "/run/a/windows.qmp")["error"].is_null());
    scene.run(2_000);
    let targets = scene.fake.targets();
    assert!(!targets.is_empty() && targets.iter().all(|(_, id, _)| *id == first), "{targets:?}");
    let journal = Journal::read_only(&scene.dir.join("journal.db")).unwrap();
    assert_eq!(journal.guests().unwrap().len(), 2);
}

#[test]
fn report_h04_attached_balloon_is_used() {
    let mut scene = Scene::kept("");
    let found = Fake::found("web", FOUR);
    let can = found.can;
    let guest = scene.fake.add(Found { can: Capabilities::default(), ..found });
    scene.run(2_000);
    let mut client = scene.client();
    let pin = r#"{"v":1,"id":1,"do":"set","guest":"web","what":"pin","value":"1 GiB"}"#;
    scene.ask(&mut client, pin);
    scene.run(5_000);
    assert_eq!(scene.fake.targets(), [], "the guest has no balloon");
    let told = rows(&mut scene)[0]["unusable"].to_string();
    assert!(told.contains("add a virtio-balloon device"), "{told}");
    scene.fake.emit(Event::Devices(guest, can, None));
    scene.run(5_000);
    assert_eq!(scene.actual(guest), 1024);
}

#[test]
fn manager_that_ends_writes_a_journal_that_is_locked() {
    let mut scene = Scene::new("");
    scene.run(2_000);
    let path = scene.dir.join("journal.db");
    let mut other = Journal::open(&path).unwrap();
    other.begin().unwrap();
    let notices = scene.manager.finish();
    assert!(
        notices.iter().any(|notice| notice.contains("a copy has replaced the file")),
        "{notices:?}"
    );
    let ever = Range { from_ms: 0, to_ms: i64::MAX };
    let events = Journal::read_only(&path).unwrap().events(&[], ever, u32::MAX).unwrap();
    assert!(events.iter().any(|event| event.event.kind == kinds::MANAGER_STOP), "{events:?}");
}
