//! Guests parked and woken on request, with hypervisors that obey, refuse and hang.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::scene::{FOUR, Scene, Sleeper, answer};
use base::Bytes;
use hypervisor::{Balloon, Event, Fake, Found, Id, Pause, ProcessId, RunState};
use manager::Options;
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::net::UnixStream;

/// Returns a scene with a keeper and a guest.
fn scene() -> (Scene, Id) {
    let mut scene = Scene::kept("");
    let guest = scene.guest("web", FOUR, Bytes::mib(500));
    // The keeper must be alive before a guest can be parked.
    scene.run(5_000);
    (scene, guest)
}

fn asked(scene: &mut Scene, what: &str) -> Value {
    let request = json!({ "v": 1, "id": 1, "do": what, "guest": "web" }).to_string();
    scene.ask(&mut scene.client(), &request).unwrap()
}

fn refusal(answer: &Value) -> String {
    answer["error"]["message"].as_str().unwrap_or_default().to_owned()
}

fn state(scene: &mut Scene) -> String {
    let ps = scene.ask(&mut scene.client(), r#"{"v":1,"id":1,"do":"ps"}"#).unwrap();
    ps["ok"]["guests"][0]["state"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn park_and_wake_are_answered_when_they_are_done() {
    let (mut scene, guest) = scene();
    assert_eq!(refusal(&asked(&mut scene, "wake")), "web is not parked");
    let parked = asked(&mut scene, "park");
    assert_eq!(parked["ok"]["guest"], "web");
    let kept = parked["ok"]["kept"].as_str().unwrap();
    assert!(kept.contains("no test hands memory"), "{kept}");
    assert_eq!(state(&mut scene), "parked");
    assert!(asked(&mut scene, "park")["error"].is_null(), "a parked guest stays parked");
    assert!(asked(&mut scene, "wake")["error"].is_null());
    assert_eq!(state(&mut scene), "running");
    assert_eq!(scene.fake.runs(), [(guest, false), (guest, true)]);
}

#[test]
fn guest_paused_or_resumed_by_others_is_left_alone() {
    let (mut scene, guest) = scene();
    scene.fake.set_state(guest, RunState::Paused(Pause::ByHand));
    scene.run(500);
    assert_eq!(state(&mut scene), "paused");
    let why = refusal(&asked(&mut scene, "park"));
    assert!(why.starts_with("web cannot be parked: a user or a tool has paused it"), "{why}");
    assert!(refusal(&asked(&mut scene, "wake")).contains("was not parked by this manager"));
    scene.fake.set_state(guest, RunState::Running);
    scene.run(500);
    asked(&mut scene, "park");
    scene.fake.set_state(guest, RunState::Running);
    scene.run(500);
    assert_eq!(state(&mut scene), "running");
    assert_eq!(refusal(&asked(&mut scene, "wake")), "web is not parked");
    assert_eq!(scene.fake.runs(), [(guest, false)]);
}

#[test]
fn report_h14_full_disk_is_named_when_park_or_wake_is_refused() {
    let (mut scene, guest) = scene();
    scene.fake.set_state(guest, RunState::Paused(Pause::DiskError));
    scene.run(500);
    let ps = scene.ask(&mut scene.client(), r#"{"v":1,"id":1,"do":"ps"}"#).unwrap();
    let unusable = ps["ok"]["guests"][0]["unusable"].as_str().unwrap().to_owned();
    for text in [unusable, refusal(&asked(&mut scene, "park")), refusal(&asked(&mut scene, "wake"))]
    {
        assert!(
            text.contains("one of its disks has failed, or is full: repair the disk"),
            "{text}"
        );
    }
}

/// The guest's farm parks and wakes the guest. The manager only reports the guest's state.
#[test]
fn paused_guest_of_a_farm_counts_as_parked_by_its_farm() {
    let mut scene = Scene::kept("");
    let source = "/run/pinhead/up/77/web.qmp".into();
    let guest = scene.fake.add(Found { source, ..Fake::found("web", FOUR) });
    scene.run(5_000);
    assert_eq!(state(&mut scene), "running");
    scene.fake.set_state(guest, RunState::Paused(Pause::ByHand));
    scene.run(500);
    assert_eq!(state(&mut scene), "parked");
    assert!(refusal(&asked(&mut scene, "park")).contains("only that `pinhead up` can park it"));
    scene.fake.set_state(guest, RunState::Running);
    scene.run(500);
    assert_eq!(state(&mut scene), "running");
    assert_eq!(scene.fake.runs(), []);
}

#[test]
fn a_hypervisor_that_refuses_leaves_the_guest_as_it_was() {
    let (mut scene, guest) = scene();
    scene.fake.set_balloon(guest, Balloon::Refuses("not now".into()));
    assert_eq!(refusal(&asked(&mut scene, "park")), "The guest's hypervisor refuses: not now");
    assert_eq!(refusal(&asked(&mut scene, "wake")), "web is not parked");
    scene.fake.set_balloon(guest, Balloon::Quick);
    asked(&mut scene, "park");
    scene.fake.set_balloon(guest, Balloon::Refuses("not now".into()));
    assert_eq!(refusal(&asked(&mut scene, "wake")), "The guest's hypervisor refuses: not now");
    assert_eq!(state(&mut scene), "parked");
    scene.fake.set_balloon(guest, Balloon::Quick);
    assert!(asked(&mut scene, "wake")["error"].is_null());
}

/// A late stop is undone, because no guest may stay stopped after a failed request.
#[test]
fn a_guest_that_stops_after_its_time_is_woken() {
    let (mut scene, guest) = scene();
    scene.fake.set_balloon(guest, Balloon::Silent);
    let mut client = scene.client();
    park(&mut client);
    scene.run(6_000);
    assert_eq!(
        refusal(&answer(&mut client).unwrap()),
        "The guest's hypervisor has not responded in time"
    );
    // The request to wake was not even sent, which libvirt reports a second later.
    scene.fake.emit(Event::Stays(guest, "its hypervisor does not answer libvirt".into()));
    scene.run(20_000);
    scene.fake.set_balloon(guest, Balloon::Quick);
    scene.fake.set_state(guest, RunState::Paused(Pause::ByHand));
    scene.run(7_000);
    assert_eq!(scene.fake.runs().last(), Some(&(guest, true)));
    assert_eq!(state(&mut scene), "running");
    scene.run(7_000);
    let runs = scene.fake.runs().len();
    scene.run(10_000);
    assert_eq!(scene.fake.runs().len(), runs, "a running guest is left alone");
}

/// libvirt refuses to resume a running guest, and such a guest must not count as parked.
#[test]
fn a_guest_that_was_never_stopped_is_not_parked() {
    let (mut scene, guest) = scene();
    scene.fake.set_balloon(guest, Balloon::Silent);
    let mut client = scene.client();
    park(&mut client);
    scene.run(3_000);
    scene.fake.set_balloon(guest, Balloon::Refuses("it is running".into()));
    scene.run(16_000);
    assert_eq!(scene.fake.runs(), [(guest, false), (guest, true), (guest, true)]);
    assert_eq!(state(&mut scene), "running");
    assert_eq!(refusal(&asked(&mut scene, "wake")), "web is not parked");
    scene.fake.set_balloon(guest, Balloon::Quick);
    assert!(asked(&mut scene, "park")["error"].is_null());
    assert_eq!(state(&mut scene), "parked");
}

#[test]
fn waiting_client_is_answered_when_the_guest_goes() {
    let (mut scene, guest) = scene();
    scene.fake.set_balloon(guest, Balloon::Silent);
    let mut client = scene.client();
    park(&mut client);
    scene.run(500);
    scene.fake.remove(guest, "killed");
    scene.run(500);
    assert_eq!(refusal(&answer(&mut client).unwrap()), "The guest is gone");
}

/// The guest runs on its new host. A second copy here would destroy its disks.
#[test]
fn a_parked_guest_that_moves_away_is_not_let_run_here() {
    let (mut scene, guest) = scene();
    asked(&mut scene, "park");
    scene.fake.set_state(guest, RunState::Migrating);
    scene.run(500);
    assert_eq!(refusal(&asked(&mut scene, "wake")), "web moves to another host, or is being saved");
    assert_eq!(scene.fake.runs(), [(guest, false)]);
    scene.fake.set_state(guest, RunState::Paused(Pause::ByHand));
    scene.run(500);
    assert!(asked(&mut scene, "wake")["error"].is_null(), "the migration was cancelled");
}

/// A guest with a lost monitor is not gone.
#[test]
fn guest_is_still_parked_when_its_monitor_is_back() {
    let mut scene = Scene::kept("");
    let process = Sleeper::start();
    let found = Found { process: ProcessId::of(process.pid()), ..Fake::found("web", FOUR) };
    let guest = scene.fake.add(found.clone());
    scene.run(5_000);
    assert!(asked(&mut scene, "park")["error"].is_null());
    scene.fake.remove(guest, "its monitor is silent");
    scene.run(2_000);
    let again = scene.fake.add(Found { state: RunState::Paused(Pause::ByHand), ..found });
    scene.run(500);
    assert_eq!(state(&mut scene), "parked");
    assert!(asked(&mut scene, "wake")["error"].is_null());
    assert_eq!(scene.fake.runs(), [(guest, false), (again, true)]);
}

#[test]
fn finding2_18_parked_guests_are_written_down_until_they_run() {
    let mut scene = Scene::after("");
    let process = Sleeper::start();
    let of = ProcessId::of(process.pid());
    let guest = scene.fake.add(Found { process: of, ..Fake::found("web", FOUR) });
    scene.run(5_000);
    assert!(asked(&mut scene, "park")["error"].is_null());
    let line = format!("{} {}", process.pid(), of.unwrap().start_ticks);
    assert_eq!(scene.written(), [line], "the virtual CPUs are invisible");
    assert!(asked(&mut scene, "wake")["error"].is_null());
    assert_eq!(scene.written(), [""; 0]);
    assert_eq!(scene.fake.runs(), [(guest, false), (guest, true)]);
}

#[test]
fn finding2_18_next_manager_wakes_what_a_killed_one_had_parked() {
    let process = Sleeper::start();
    let of = ProcessId::of(process.pid());
    let line = format!("{} {}\n", process.pid(), of.unwrap().start_ticks);
    let mut scene = Scene::after(&line);
    let notices = scene.manager.take_notices();
    assert!(
        notices.iter().any(|text| text.contains("their manager and its keeper were killed: 1.")),
        "{notices:?}"
    );
    let paused = Found { state: RunState::Paused(Pause::ByHand), ..Fake::found("other", FOUR) };
    scene.fake.add(paused.clone());
    scene.run(1_000);
    assert_eq!(scene.written(), [line.trim_end()], "the guest has not been found yet");
    let guest = scene.fake.add(Found { process: of, name: "web".into(), ..paused });
    scene.run(10_000);
    assert_eq!(scene.fake.runs(), [(guest, true)], "the other guest is not this manager's");
    assert_eq!(scene.written(), [""; 0]);
    assert_eq!(refusal(&asked(&mut scene, "wake")), "web is not parked");
}

/// Returns the next manager's requests to stop (false) or resume (true) a stopped guest. The killed
/// manager had recorded the CPU time of the virtual CPUs at the stop.
fn after_a_kill(process: &Sleeper, ran_ns: u64) -> Vec<bool> {
    let of = ProcessId::of(process.pid());
    let line = format!("{} {} ran {ran_ns}\n", process.pid(), of.unwrap().start_ticks);
    let mut scene = Scene::after(&line);
    let found = Found { process: of, vcpu_tids: vec![process.pid()], ..Fake::found("web", FOUR) };
    scene.fake.add(Found { state: RunState::Paused(Pause::ByHand), ..found });
    scene.run(10_000);
    assert_eq!(scene.written(), [""; 0]);
    scene.fake.runs().into_iter().map(|(_, runs)| runs).collect()
}

#[test]
fn finding2_18_guest_that_has_run_since_it_was_parked_stays() {
    let process = Sleeper::busy();
    let path = format!("/proc/{}/schedstat", process.pid());
    let ran_ns = || -> u64 {
        let text = std::fs::read_to_string(&path).unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    };
    while ran_ns() < 50_000_000 {}
    assert_eq!(after_a_kill(&process, 0), [false; 0], "paused by others");
    assert_eq!(after_a_kill(&Sleeper::start(), 0), [true]);
}

#[test]
fn manager_parks_no_guest_in_a_dry_run_or_without_a_keeper() {
    let mut dry = Scene::with("", Options { dry_run: true, ..Options::default() });
    dry.guest("web", FOUR, Bytes::mib(500));
    dry.run(5_000);
    assert!(refusal(&asked(&mut dry, "park")).contains("--dry-run"));
    let mut dead = Scene::kept_by("", "true");
    dead.guest("web", FOUR, Bytes::mib(500));
    let status = r#"{"v":1,"id":1,"do":"status"}"#;
    let mut has_keeper = || {
        let status = dead.ask(&mut dead.client(), status).unwrap();
        !status["ok"]["lease"]["keeper_pid"].is_null()
    };
    // The keeper ends in real time, which may be later than any number of simulated seconds.
    assert!((0..10_000).any(|_| !has_keeper()), "a dead keeper counts as alive");
    assert!(refusal(&asked(&mut dead, "park")).contains("no keeper"));
    assert_eq!((dry.fake.runs(), dead.fake.runs()), (Vec::new(), Vec::new()));
}

fn park(client: &mut UnixStream) {
    writeln!(client, r#"{{"v":1,"id":1,"do":"park","guest":"web"}}"#).unwrap();
}
