//! The manager's pace while all guests sleep.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::scene::{FOUR, Scene, Sleeper};
use base::Bytes;
use hypervisor::{Fake, Found, ProcessId};

/// Returns a scene with a guest in this process, after 20 s.
fn scene_of(process: &Sleeper) -> Scene {
    let mut scene = Scene::new("");
    let pid = process.pid();
    let of = ProcessId::of(pid);
    let found = Found { process: of, vcpu_tids: vec![pid], ..Fake::found("web1", FOUR) };
    let id = scene.fake.add(found);
    scene.guests.push((id, Bytes::mib(512)));
    scene.run(20_000);
    scene
}

fn passes(scene: &mut Scene) -> u64 {
    let status = scene.ask(&mut scene.client(), r#"{"v":1,"id":1,"do":"status"}"#).unwrap();
    status["ok"]["passes"].as_u64().unwrap()
}

/// Returns the number of passes in 30 s, with the seconds in which a client asks.
fn passes_in_30_s(scene: &mut Scene) -> u64 {
    let before = passes(scene);
    scene.run(30_000);
    passes(scene) - before
}

#[test]
fn manager_works_every_three_seconds_while_all_guests_sleep() {
    let process = Sleeper::start();
    let mut scene = scene_of(&process);
    let calm = passes_in_30_s(&mut scene);
    assert!((9..=14).contains(&calm), "{calm}");
    let watching = scene.client();
    let watched = passes_in_30_s(&mut scene);
    assert!(watched >= 29, "a client is connected: {watched}");
    drop(watching);
    scene.run(2_000);
    // A new guest must be known first.
    scene.guest("web2", FOUR, Bytes::mib(512));
    let disturbed = passes_in_30_s(&mut scene);
    assert!(disturbed >= 29, "the new guest has no known process: {disturbed}");
}
