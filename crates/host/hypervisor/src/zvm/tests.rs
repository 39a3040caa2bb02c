//! Tests of z/VM's users, with a file of counters written by the test.

use super::*;
use procfs::testing::Tree;
use std::fs;
use zmon::hypfs::guests_bytes;
use zmon::{Tod, to_ebcdic};

struct Scene {
    tree: Tree,
    zvm: Zvm,
}

impl Scene {
    fn new(managed: &[&str]) -> Scene {
        let tree = Tree::create();
        let options = ZvmOptions {
            counters: tree.join("diag_2fc"),
            program: "true".into(),
            managed: managed.iter().map(|one| (*one).to_owned()).collect(),
            own: Some("LINUX09".to_owned()),
            memory: Some(Bytes::mib(4_096)),
            interval_ms: 1_000,
        };
        Scene { tree, zvm: Zvm::new(options, IdSource::new()) }
    }

    fn write(&self, guests: &[Guest]) {
        fs::write(self.tree.join("diag_2fc"), guests_bytes(guests, Tod(1))).unwrap();
    }

    fn turn(&mut self, now_ms: u64) -> Vec<Event> {
        let mut events = Vec::new();
        self.zvm.turn(None, now_ms, &mut events);
        events
    }
}

fn guest(name: &str, used_mib: u64, seconds: u64) -> Guest {
    Guest {
        name: to_ebcdic(name),
        elapsed_us: seconds * 1_000_000,
        memory_max: 1_024 << 10,
        memory_used: used_mib << 10,
        ..Guest::default()
    }
}

#[test]
fn users_are_found_counted_and_gone() {
    let mut scene = Scene::new(&["LINUX*"]);
    assert_eq!(scene.zvm.host_memory(), HostMemory::Unknown);
    scene.write(&[guest("LINUX01", 900, 10), guest("MAINT", 50, 10), guest("LINUX01", 1, 1)]);
    let events = scene.turn(0);
    let [
        Event::Found(one, linux),
        Event::Counted(..),
        Event::Found(two, maint),
        Event::Counted(..),
    ] = events.as_slice()
    else {
        panic!("{events:?}");
    };
    assert_eq!((linux.name.as_str(), maint.name.as_str()), ("LINUX01", "MAINT"));
    assert_eq!((linux.memory, linux.actual), (Bytes::mib(1_024), Bytes::mib(1_024)));
    assert!(linux.can.balloon && !maint.can.balloon, "MAINT is not named");
    let (total, available) = (Bytes::mib(4_096), Bytes::mib(4_096 - 951));
    assert_eq!(scene.zvm.host_memory(), HostMemory::Known { total, available });
    let (one, two) = (*one, *two);

    // The file is read again after the interval, or on request after half of the interval.
    assert_eq!((scene.zvm.next_ms(), scene.turn(999)), (1_000, Vec::new()));
    scene.zvm.ask_stats(one, 10);
    assert_eq!(scene.zvm.next_ms(), 500);
    scene.write(&[guest("LINUX01", 900, 11)]);
    let events = scene.turn(500);
    assert!(events.contains(&Event::Gone(two, "it has logged off".into())), "{events:?}");
    assert!(events.iter().any(|event| matches!(event, Event::Counted(id, _) if *id == one)));
    scene.write(&[guest("LINUX01", 900, 12), guest("LINUX09", 9, 9)]);
    let events = scene.turn(1_500);
    let of = |event: &Event| match event {
        Event::Found(_, found) => Some((found.name.clone(), found.can.balloon)),
        _ => None,
    };
    let found: Vec<_> = events.iter().filter_map(of).collect();
    assert_eq!(found, [("LINUX09".to_owned(), false)], "the user of this process");
    // A user with less elapsed time has logged on again.
    scene.write(&[guest("LINUX01", 30, 2)]);
    let events = scene.turn(2_500);
    assert_eq!(events[0], Event::Gone(one, "it has logged on again".into()));
    assert!(matches!(events[1], Event::Found(id, _) if id > two));
}

#[test]
fn pool_size_is_sent_and_its_effect_is_seen_in_the_counters() {
    let mut scene = Scene::new(&["*"]);
    scene.write(&[guest("LINUX01", 1_000, 1), guest("bad-one", 1_000, 1)]);
    scene.turn(0);
    let id = scene.zvm.names["LINUX01"];
    scene.zvm.set_target(id, Bytes::mib(768), 0);
    assert_eq!(scene.zvm.next_ms(), 0);
    scene.turn(0);
    let mut set = PollSet::new();
    scene.zvm.fds(&mut set);
    set.wait(30_000).unwrap();
    let taken = [Event::Taken(id, Bytes::mib(768)), Event::Actual(id, Bytes::mib(1_024))];
    assert_eq!(scene.turn(10), taken);
    let mut actual = |used, now_ms| {
        scene.write(&[guest("LINUX01", used, now_ms), guest("bad-one", 1_000, now_ms)]);
        let events = scene.turn(now_ms);
        let of = |event: &Event| match event {
            Event::Actual(found, size) if *found == id => Some(size.as_mib()),
            _ => None,
        };
        events.iter().find_map(of)
    };
    assert_eq!(actual(900, 1_000), Some(889));
    assert_eq!(actual(700, 2_000), Some(768));
    let bad = scene.zvm.names["bad-one"];
    scene.zvm.set_target(bad, Bytes::mib(1), 2_000);
    let refused = Event::Refused(bad, "the settings do not list this user for management".into());
    assert_eq!(scene.turn(2_000), [refused]);
}

#[test]
fn unreadable_file_is_reported_once_and_data_is_unknown() {
    let mut scene = Scene::new(&["*"]);
    let events = scene.turn(0);
    assert!(matches!(events.as_slice(), [Event::Trouble(text)] if text.contains("2fc")));
    assert_eq!(scene.turn(1_000), []);
    scene.write(&[guest("LINUX01", 1, 1)]);
    scene.turn(2_000);
    let id = scene.zvm.names["LINUX01"];
    scene.tree.file("diag_2fc", "short");
    let events = scene.turn(3_000);
    assert!(
        matches!(events.as_slice(), [Event::Answers(one, false), Event::Trouble(_)] if *one == id)
    );
    assert_eq!(scene.zvm.host_memory(), HostMemory::Unknown);
    assert!(scene.zvm.trouble().is_some(), "it persists");
    scene.write(&[guest("LINUX01", 1, 2)]);
    assert_eq!(scene.turn(4_000)[0], Event::Answers(id, true));
    assert_eq!(scene.zvm.trouble(), None);
}

#[test]
fn finding2_16_zvm_users_beyond_the_bound_are_told_once() {
    let mut scene = Scene::new(&[]);
    let all: Vec<_> = (0..=USERS_MAX).map(|number| guest(&format!("L{number}"), 1, 1)).collect();
    scene.write(&all);
    let events = scene.turn(0);
    let Some(Event::Trouble(words)) = events.first() else { panic!("{:?}", events.first()) };
    assert!(words.contains("10001 users: only the first 10000"), "{words}");
    let events = scene.turn(10_000);
    assert!(!events.iter().any(|event| matches!(event, Event::Trouble(_))), "reported once");
    assert!(scene.zvm.trouble().is_some_and(|words| words.contains("10001 users")));
}
