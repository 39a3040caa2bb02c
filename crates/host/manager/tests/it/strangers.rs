//! Guests of users named in the settings, besides the manager's own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::scene::{FOUR, GIB, Scene, write_meminfo};
use base::Bytes;
use hypervisor::{Fake, Found, Owner, ProcessId, balloon_row};
use model::GuestField as G;

/// A user without guests by default.
const ALICE: Owner = Owner(4_000_000);
const NAMED: &str =
    "[sources]\nusers = [\"4000000\"]\n[[user]]\nname = \"4000000\"\nmax = \"2 GiB\"\n";

fn of_alice(name: &str, memory: Bytes) -> Found {
    Found { owner: ALICE, user: Some(ALICE), ..Fake::found(name, memory) }
}

#[test]
fn finding_04_fake_with_a_guests_name_and_uuid_stays_apart() {
    let mut scene = Scene::new(NAMED);
    let own = scene.guest("web", FOUR, Bytes::mib(500));
    scene.fake.add(of_alice("web", FOUR));
    scene.run(2_000);
    let mut client = scene.client();
    let uuid = wire::uuid_text(&Fake::found("web", FOUR).uuid);
    for name in ["web", uuid.as_str()] {
        let set =
            format!(r#"{{"v":1,"id":1,"do":"set","guest":"{name}","what":"pin","value":"4 GiB"}}"#);
        let answer = scene.ask(&mut client, &set).unwrap();
        assert_eq!(answer["ok"]["guest"], "web", "{answer}");
    }
    let ps = scene.ask(&mut client, r#"{"v":1,"id":1,"do":"ps"}"#).unwrap();
    let rows = ps["ok"]["guests"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!((&row("web")["id"], &row("web")["mode"]), (&own.0.into(), &"pinned".into()));
    assert_eq!(row("4000000/web")["mode"], "managed", "{ps}");
}

#[test]
fn finding_04_claims_of_a_fake_are_cut_to_its_users_part() {
    let mut scene = Scene::new(NAMED);
    scene.guest("web", FOUR, Bytes::mib(500));
    for number in 0..3 {
        scene.fake.add(of_alice(&format!("g{number}"), Bytes(64 * GIB)));
    }
    write_meminfo(&scene.dir, 2 * GIB);
    scene.run(2_000);
    let mut client = scene.client();
    let ps = scene.ask(&mut client, r#"{"v":1,"id":1,"do":"ps"}"#).unwrap();
    let rows = ps["ok"]["guests"].as_array().unwrap();
    let of_alice = rows.iter().filter(|row| row["name"].as_str().unwrap().starts_with("4000000/"));
    let maxima: Vec<u64> = of_alice.map(|row| row["max_bytes"].as_u64().unwrap()).collect();
    assert_eq!(maxima.len(), 3);
    assert!(maxima.iter().sum::<u64>() <= 2 * GIB, "{maxima:?}");
}

#[test]
fn finding_04_starving_fake_takes_nothing_from_a_real_guest() {
    // The fake can hide its process. A visible process has hardly any resident memory.
    for process in [None, ProcessId::of(std::process::id())] {
        let mut scene = Scene::new(NAMED);
        let real = scene.guest("web", FOUR, Bytes::mib(500));
        // The host is at its set point, a tenth of its memory.
        write_meminfo(&scene.dir, 17 * GIB / 10);
        let found = Found { actual: Bytes(GIB), process, ..of_alice("fake", Bytes(64 * GIB)) };
        let fake = scene.fake.add(found);
        for second in 1..40 {
            let values = [
                (G::BalloonTotal, Some(64 * GIB)),
                (G::BalloonFree, Some(0)),
                (G::BalloonAvailable, Some(0)),
                (G::BalloonSwapIn, Some(second * GIB)),
            ];
            scene.fake.set_stats(fake, Some(balloon_row(second, Bytes(64 * GIB), values)));
            scene.run(1_000);
            assert_eq!(scene.actual(real), 4096, "{second} s, {process:?}");
        }
        assert!(scene.actual(fake) <= 1024, "the fake has got something");
    }
}
