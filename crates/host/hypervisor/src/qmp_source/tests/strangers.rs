//! Sockets of other users, and directories full of them.

use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;

use super::*;
use crate::{Claim, Stranger};

/// Number of turns, of at most 50 ms each, in which a script of the user `nobody` is certainly
/// found.
const TURNS: usize = 400;

/// Creates a source for two directories: one of the user `nobody`, and one of this user.
fn source(tree: &Tree, trust: Trust) -> QmpSource {
    let pattern = |dir: &str| format!("{}/{dir}/*.qmp", tree.path().display());
    let patterns = [pattern("user/*"), pattern("server")];
    QmpSource::new(&patterns, trust, IdSource::new()).unwrap()
}

fn claim(tree: &Tree) -> Claim {
    Claim {
        name: "web".into(),
        uuid: "00112233-4455-6677-8899-aabbccddeeff".into(),
        memory: Bytes::mib(65_536),
        port: tree.path().join("user/nobody/g1.port"),
        need: true,
    }
}

/// Runs turns until an event is reported. The clock is fake, but the waiting is real.
fn reported(source: &mut QmpSource, now_ms: &mut u64) -> Vec<Event> {
    let mut events = Vec::new();
    for _ in 0..TURNS {
        let mut set = PollSet::new();
        source.fds(&mut set);
        let ready = set.wait(50).unwrap();
        *now_ms += 50;
        source.turn(Some(ready.of(0)), *now_ms, &mut events);
        if !events.is_empty() {
            break;
        }
    }
    events
}

#[test]
fn finding_04_a_guest_of_a_user_who_is_not_named_is_none() {
    let tree = Tree::create();
    let Some(mut nobody) = Stranger::at(&tree.path().join("user/nobody")) else {
        base::skipped!("only root can be somebody else");
        return;
    };
    let pid = nobody.claim("g1.qmp", &claim(&tree)).unwrap();
    let mut unnamed = source(&tree, Trust::default());
    let mut events = Vec::new();
    (0..100).for_each(|turn| unnamed.turn(None, turn * 100, &mut events));
    assert!(unnamed.places.is_empty() && events.is_empty(), "{events:?}");
    let mut named = source(&tree, Trust::naming([Stranger::OWNER]));
    let events = reported(&mut named, &mut 0);
    let [Event::Found(_, found)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((found.owner, found.user), (Stranger::OWNER, Some(Stranger::OWNER)));
    assert_eq!(found.process.map(|process| process.pid), Some(pid));
}

#[test]
fn finding_07_a_named_user_cannot_lend_the_sockets_of_root() {
    let tree = Tree::create();
    let Some(_nobody) = Stranger::at(&tree.path().join("user/nobody")) else {
        base::skipped!("only root can be somebody else");
        return;
    };
    // A socket of root in the directory of the user `nobody`, as if that user had moved it there.
    let listener = UnixListener::bind(tree.path().join("user/nobody/g1.qmp")).unwrap();
    listener.set_nonblocking(true).unwrap();
    let events = reported(&mut source(&tree, Trust::naming([Stranger::OWNER])), &mut 0);
    let [Event::Trouble(words)] = events.as_slice() else { panic!("{events:?}") };
    assert!(
        words.contains("belongs to user 65534, but another user created it or listens on it"),
        "{words}"
    );
    assert!(listener.accept().is_err(), "the socket was connected to");
}

#[test]
fn finding_08_dead_sockets_hide_no_guest_and_are_one_trouble() {
    let tree = Tree::create();
    tree.file("user/a/README", "");
    tree.file("server/README", "");
    for number in 0..4_096 {
        drop(UnixListener::bind(tree.path().join(format!("user/a/{number}.qmp"))).unwrap());
    }
    let mut source = source(&tree, Trust::default());
    let live = UnixListener::bind(tree.path().join("server/new.qmp")).unwrap();
    live.set_nonblocking(true).unwrap();
    let (mut events, mut now_ms) = (Vec::new(), 0);
    // The time is shorter than the greeting timeout, which would also be reported.
    for _ in 0..90 {
        source.turn(None, now_ms, &mut events);
        now_ms += 50;
    }
    assert!(live.accept().is_ok(), "it was not found");
    assert_eq!(events.len(), 1, "{} lines, such as {:?}", events.len(), events.last());
    // A live socket in the same directory replaces a dead socket.
    let live = UnixListener::bind(tree.path().join("user/a/z.qmp")).unwrap();
    live.set_nonblocking(true).unwrap();
    for _ in 0..200 {
        source.turn(None, now_ms, &mut events);
        now_ms += 50;
    }
    assert!(live.accept().is_ok(), "a dead socket keeps its place");
}

#[test]
fn finding2_16_sockets_beyond_the_bound_are_told_once() {
    let tree = Tree::create();
    tree.file("server/README", "");
    let bind = |name| UnixListener::bind(tree.path().join("server").join(name)).unwrap();
    let _listeners = ["1.qmp", "2.qmp", "3.qmp", "4.qmp"].map(bind);
    let mut source = source(&tree, Trust::default());
    source.places_max = 2;
    let mut events = Vec::new();
    source.turn(None, 0, &mut events);
    assert_eq!(events, [], "the chosen ones may be dead, and make room");
    (1..3).for_each(|scan| source.turn(None, scan * SCAN_MS, &mut events));
    let [Event::Trouble(words)] = events.as_slice() else { panic!("{events:?}") };
    assert!(
        words.contains("2 QMP sockets match") && words.contains("Left out: 2 guests."),
        "{words}"
    );
    assert!(words.contains("server/*.qmp"), "{words}");
}

#[test]
fn finding2_16_directory_with_too_many_entries_is_told_once() {
    let tree = Tree::create();
    tree.file("server/README", "");
    (0..4).for_each(|number| drop(tree.file(&format!("server/{number}"), "")));
    let mut source = source(&tree, Trust::default());
    source.globs[1].entries_max = 4;
    let mut events = Vec::new();
    (0..3).for_each(|scan| source.turn(None, scan * SCAN_MS, &mut events));
    let [Event::Trouble(words)] = events.as_slice() else { panic!("{events:?}") };
    assert!(words.contains("server has too many files"), "{words}");
}

#[test]
fn finding_08_full_directory_of_named_user_delays_no_other() {
    let tree = Tree::create();
    let Some(_nobody) = Stranger::at(&tree.path().join("user/nobody")) else {
        base::skipped!("only root can be somebody else");
        return;
    };
    let dir = tree.path().join("user/nobody");
    tree.file("user/root/README", "");
    let listener = UnixListener::bind(tree.path().join("user/root/g.qmp")).unwrap();
    let mut source = source(&tree, Trust::naming([Stranger::OWNER]));
    let (mut events, mut now_ms) = (Vec::new(), 0);
    // Each search of the manager finds sockets with new names.
    for round in 0..10 {
        for number in 0..300 {
            let path = dir.join(format!("{round}-{number}.qmp"));
            drop(UnixListener::bind(&path).unwrap());
            chown(&path, Some(65_534), Some(65_534)).unwrap();
        }
        for _ in 0..40 {
            source.turn(None, now_ms, &mut events);
            now_ms += 50;
        }
        for number in 0..300 {
            std::fs::remove_file(dir.join(format!("{round}-{number}.qmp"))).unwrap();
        }
    }
    assert!(listener.set_nonblocking(true).is_ok() && listener.accept().is_ok());
    assert!(source.places.len() <= PLACES_OF_OTHERS + 1, "{} places", source.places.len());
    assert!(events.len() <= 34, "{} lines in 20 s", events.len());
}

#[test]
fn finding_08_a_link_of_another_user_leads_nowhere() {
    let tree = Tree::create();
    let Some(_nobody) = Stranger::at(&tree.path().join("user/nobody")) else {
        base::skipped!("only root can be somebody else");
        return;
    };
    // A monitor of root that matches none of the patterns.
    tree.file("secret/README", "");
    let secret = tree.path().join("secret/a.qmp");
    let listener = UnixListener::bind(&secret).unwrap();
    listener.set_nonblocking(true).unwrap();
    symlink(&secret, tree.path().join("user/nobody/a.qmp")).unwrap();
    symlink(tree.path().join("secret"), tree.path().join("user/nobody/dir")).unwrap();
    let pattern = |tail: &str| format!("{}/user/*/{tail}", tree.path().display());
    let patterns = [pattern("*.qmp"), pattern("a.qmp"), pattern("*/*.qmp"), pattern("dir/a.qmp")];
    for trust in [Trust::default(), Trust::naming([Stranger::OWNER])] {
        let mut source = QmpSource::new(&patterns, trust, IdSource::new()).unwrap();
        let mut events = Vec::new();
        (0..50).for_each(|turn| source.turn(None, turn * 100, &mut events));
        assert!(source.places.is_empty() && events.is_empty(), "{events:?}");
    }
    assert!(listener.accept().is_err(), "root followed the link");
}

#[test]
fn finding_07_a_directory_that_anybody_may_write_is_nobodys() {
    let tree = Tree::create();
    tree.file("server/README", "");
    let dir = tree.path().join("server");
    let _listener = UnixListener::bind(dir.join("a.qmp")).unwrap();
    let looked = |mode| {
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut source = source(&tree, Trust::default());
        let mut events = Vec::new();
        source.turn(None, 0, &mut events);
        (source.places.len(), events)
    };
    assert_eq!(looked(0o755), (1, vec![]));
    assert_eq!(looked(0o1777), (1, vec![]), "sticky: users replace only their own");
    let (places, events) = looked(0o777);
    assert!(matches!(events.as_slice(), [Event::Trouble(words)] if words.contains("chmod go-w")));
    assert_eq!(places, 0);
}
