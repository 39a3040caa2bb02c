//! Hostile guests and clients, and failures around a manager. The invariants must still be
//! satisfied.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::scene::{FOUR, GIB, Scene, answer, write_meminfo};
use base::Bytes;
use hypervisor::{Balloon, Event, Id};
use std::fs;

/// Returns a guest that has shrunk, on a host that has enough memory again.
fn shrunk(scene: &mut Scene) -> Id {
    let guest = scene.guest("web", FOUR, Bytes::mib(500));
    write_meminfo(&scene.dir, GIB);
    scene.run(10_000);
    write_meminfo(&scene.dir, 8 * GIB / 5);
    scene.run(5_000);
    assert!(scene.actual(guest) < 3500, "{}", scene.actual(guest));
    assert_eq!(scene.held(), 1);
    guest
}

#[test]
fn report_h10_unexplained_rises_of_a_balloon_keep_the_lease() {
    let mut scene = Scene::kept("");
    let guest = shrunk(&mut scene);
    let size = Bytes::mib(scene.actual(guest) + 200);
    scene.fake.set_actual(guest, size);
    scene.run(3_000);
    assert_eq!(scene.held(), 1, "the rise may be the kernel's, and the guest still lacks memory");
    for more in [300, 400, 500] {
        scene.fake.set_actual(guest, size.plus(Bytes::mib(more)));
        scene.run(4_000);
    }
    assert_eq!(scene.held(), 1, "all rises may be the kernel's");
    scene.fake.set_actual(guest, Bytes::mib(600));
    scene.run(4_000);
    assert_eq!(scene.held(), 0, "a guest's kernel never inflates the balloon");
}

#[test]
fn a_guest_is_held_until_it_has_all_its_memory() {
    let mut scene = Scene::kept("");
    let guest = shrunk(&mut scene);
    scene.fake.set_balloon(guest, Balloon::Slow(Bytes::mib(20)));
    let request = r#"{"v":1,"id":1,"do":"set","guest":"web","what":"release"}"#;
    let mut client = scene.client();
    write_meminfo(&scene.dir, 8 * GIB);
    assert!(scene.ask(&mut client, request).is_some());
    scene.run(2_000);
    assert!(scene.actual(guest) < 4096);
    assert_eq!(scene.held(), 1, "the target is higher, but the guest has not grown");
    scene.fake.set_balloon(guest, Balloon::Quick);
    scene.run(15_000);
    assert_eq!((scene.actual(guest), scene.held()), (4096, 0));
}

#[test]
fn a_guest_whose_maximum_is_raised_is_held_for_the_new_one() {
    let class = |max: &str| {
        format!("[[class]]\nname = \"web\"\nmatch = [\"web\"]\nmin = \"1 GiB\"\nmax = \"{max}\"\n")
    };
    let mut scene = Scene::kept(&class("2 GiB"));
    let guest = scene.guest("web", FOUR, Bytes::mib(500));
    scene.run(10_000);
    assert_eq!((scene.actual(guest), scene.held()), (2048, 0), "the guest has its maximum");
    scene.fake.set_balloon(guest, Balloon::Slow(Bytes::mib(20)));
    fs::write(scene.dir.join("host.toml"), class("4 GiB")).unwrap();
    scene.manager.reload_and_report();
    scene.run(1_000);
    assert!(scene.actual(guest) < 4096);
    assert_eq!(scene.held(), 1, "the guest has not grown to its new maximum");
}

#[test]
fn waiting_client_is_answered_when_its_reservation_is_cancelled() {
    let mut scene = Scene::new("");
    scene.guest("web", FOUR, Bytes::mib(3900));
    write_meminfo(&scene.dir, GIB);
    scene.run(5_000);
    let mut waits = scene.client();
    let reserve = r#"{"v":1,"id":7,"do":"reserve","mib":4000,"timeout_ms":600000,"hold_ms":9}"#;
    assert_eq!(scene.ask(&mut waits, reserve), None);
    let mut other = scene.client();
    let let_go = r#"{"v":1,"id":1,"do":"unreserve","reservation":1}"#;
    assert!(scene.ask(&mut other, let_go).is_some());
    let answer = answer(&mut waits).unwrap();
    assert_eq!(answer["id"], 7);
    assert!(answer["error"].is_object() || answer["error"].is_string(), "{answer}");
}

#[test]
fn reservation_ends_when_its_client_has_left() {
    let mut scene = Scene::new("");
    let guest = scene.guest("web", FOUR, Bytes::mib(500));
    scene.run(5_000);
    let mut waits = scene.client();
    let reserve =
        r#"{"v":1,"id":7,"do":"reserve","mib":9000,"timeout_ms":600000,"hold_ms":3600000}"#;
    assert_eq!(scene.ask(&mut waits, reserve), None);
    drop(waits);
    scene.run(2_000);
    let before = scene.actual(guest);
    scene.run(20_000);
    assert_eq!(scene.actual(guest), before, "no memory is taken for the reservation");
    write_meminfo(&scene.dir, 15 * GIB);
    scene.run(2_000);
    let mut other = scene.client();
    let ps = scene.ask(&mut other, r#"{"v":1,"id":1,"do":"ps"}"#).unwrap();
    assert_eq!(ps["ok"]["host"]["reserved_bytes"], 0, "no memory is held for it either");
}

#[test]
fn a_guest_that_boots_without_end_does_not_fill_the_journal() {
    let mut scene = Scene::new("[journal]\nmax_size = \"1 MiB\"\n");
    let guest = scene.guest("web", FOUR, Bytes::mib(500));
    let other = scene.guest("quiet", FOUR, Bytes::mib(500));
    write_meminfo(&scene.dir, GIB);
    scene.run(15_000);
    let kept = scene.decisions("quiet").len();
    assert!(scene.actual(other) < 4096 && kept > 0);
    for _ in 0..2_400 {
        (0..25).for_each(|_| scene.fake.emit(Event::Rebooted(guest)));
        scene.run(50);
    }
    let size = fs::metadata(scene.dir.join("journal.db")).unwrap().len();
    assert!(size < 4 << 20, "{size} bytes");
    assert!(scene.decisions("quiet").len() >= kept, "the other guest's history is gone");
}

#[test]
fn guarding_rule_forbids_shrinking_before_its_history_is_full() {
    let dir = procfs::testing::Tree::create();
    let rules = dir.file("guard.rules", "MAYSHRINK=\"max(guest.swapin, 30) == 0\"\n");
    let settings = format!("[policy]\nrules = \"{}\"\n", rules.display());
    let mut scene = Scene::new(&settings);
    let guest = scene.guest("web", FOUR, Bytes::mib(500));
    write_meminfo(&scene.dir, GIB);
    scene.run(20_000);
    assert_eq!(scene.actual(guest), 4096, "there were fewer than thirty passes");
    scene.run(40_000);
    assert!(scene.actual(guest) < 3500);
    let before = scene.actual(guest);
    scene.manager.reload_and_report();
    write_meminfo(&scene.dir, GIB / 2);
    scene.run(5_000);
    assert_eq!(scene.actual(guest), before, "new rules have no history");
}

#[test]
fn manager_takes_no_memory_without_a_keeper() {
    let mut scene = Scene::kept_by("", "true");
    let guest = scene.guest("web", FOUR, Bytes::mib(500));
    write_meminfo(&scene.dir, GIB);
    for _ in 0..20 {
        for _ in 0..20 {
            scene.run(50);
            wait_for_the_end_of("true");
        }
    }
    assert_eq!(scene.actual(guest), 4096);
    let notices = scene.manager.take_notices();
    let count = notices.iter().filter(|text| text.contains("The keeper ends repeatedly")).count();
    assert_eq!(count, 1, "{notices:?}");
}

/// Waits until no child of this process with this name runs.
fn wait_for_the_end_of(name: &str) {
    let own = std::process::id().to_string();
    let runs = |stat: String| {
        let Some((_, rest)) = stat.split_once(&format!("({name}) ")) else { return false };
        let mut fields = rest.split(' ');
        fields.next() != Some("Z") && fields.next() == Some(own.as_str())
    };
    for _ in 0..100_000 {
        let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let mut stats = all.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        if !stats.any(runs) {
            return;
        }
        std::thread::yield_now();
    }
    panic!("{name} still runs");
}
