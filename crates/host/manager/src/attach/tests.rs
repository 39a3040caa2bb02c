use super::*;
use crate::control::{Failure, encode_answer};
use procfs::testing::Tree;
use std::io::Read;
use std::os::unix::net::UnixListener;

/// Returns a directory like that of `pinhead up`, with a listening control socket, and a guest
/// there.
fn listen() -> (Tree, UnixListener, Found) {
    let scratch = Tree::create();
    let dir = scratch.path().join("pinhead/up/4711");
    std::fs::create_dir_all(&dir).unwrap();
    let listener = UnixListener::bind(dir.join(SOCKET)).unwrap();
    let source = dir.join("g1.qmp").display().to_string();
    let found = Found { source, ..hypervisor::Fake::found("g1", base::Bytes::mib(64)) };
    (scratch, listener, found)
}

/// Returns the response that hands over guests.
fn lends() -> Vec<u8> {
    let classes = [("g1".to_owned(), "web".to_owned())].into();
    encode_answer(Some(1), &Ok(Answer::Lend(crate::control::Lent { classes })))
}

fn lent(answers: &Answers) -> Vec<Lent> {
    answers.lent.iter().map(|(_, lent)| *lent).collect()
}

#[test]
fn finding_06_listener_with_full_queue_makes_nobody_wait() {
    let (_dir, listener, found) = listen();
    rustix::net::listen(&listener, 0).unwrap();
    let mut kept = Vec::new();
    while let Ok(stream) = reactor::connect(&run_dir(&found).unwrap().join(SOCKET)) {
        kept.push(stream);
        assert!(kept.len() < 10_000);
    }
    let mut attachments = Attachments::default();
    let answers = attachments.attach(&found, 0);
    assert_eq!(lent(&answers), [Lent::No]);
    assert!(answers.complaints[0].contains("too many requests wait"), "{answers:?}");
    assert_eq!(attachments.tick(|_| true, 60_000), Answers::default(), "one complaint");
    // The queue has room at last.
    drop((
        kept,
        std::iter::from_fn(|| {
            listener.set_nonblocking(true).unwrap();
            listener.accept().ok()
        })
        .count(),
    ));
    attachments.tick(|_| true, 120_000);
    assert!(attachments.all.values().all(|one| one.open.is_some()));
}

#[test]
fn finding_06_silence_is_no_consent() {
    let (_dir, listener, found) = listen();
    let mut attachments = Attachments::default();
    assert_eq!(
        attachments.attach(&found, 0),
        Answers {
            lent: vec![(run_dir(&found).unwrap().to_path_buf(), Lent::No)],
            ..Answers::default()
        }
    );
    assert_eq!(attachments.tick(|_| true, 4_999), Answers::default());
    let answers = attachments.tick(|_| true, 5_000);
    assert!(
        answers.complaints[0].contains("are not managed here: that `pinhead up` does not answer")
    );
    let (mut farm, _) = listener.accept().unwrap();
    farm.write_all(&lends()).unwrap();
    assert_eq!(lent(&attachments.turn(6_000)), [Lent::Yes]);
    assert_eq!(lent(&attachments.attach(&found, 6_000)), [Lent::Yes], "the next guest too");
    drop(farm);
    assert_eq!(lent(&attachments.turn(7_000)), [Lent::No]);
    attachments.tick(|_| false, 8_000);
    assert!(attachments.all.is_empty());
}

#[test]
fn finding_06_missing_or_refusing_socket_is_reported() {
    let (_dir, listener, found) = listen();
    let mut attachments = Attachments::default();
    attachments.attach(&found, 0);
    let (mut farm, _) = listener.accept().unwrap();
    let failure = Failure::new("Another `pinhead host` manages these guests already; end it first");
    farm.write_all(&encode_answer(Some(1), &Err(failure))).unwrap();
    let answers = attachments.turn(1);
    assert_eq!(lent(&answers), []);
    assert!(answers.complaints[0].contains("Another `pinhead host` manages"), "{answers:?}");
    std::fs::remove_file(run_dir(&found).unwrap().join(SOCKET)).unwrap();
    let answers = Attachments::default().attach(&found, 0);
    assert!(answers.complaints[0].contains("cannot be reached"), "{answers:?}");
    let other = Found { owner: Owner(found.owner.0 + 1), ..found };
    let mut attachments = Attachments::default();
    let answers = attachments.attach(&other, 0);
    assert_eq!((lent(&answers), answers.complaints.len()), (vec![Lent::No], 1));
    // The user removes the guests, and uses many directories.
    for now_ms in (1..COMPLAINTS_MS).step_by(60_000) {
        attachments.tick(|_| false, now_ms);
        let source = other.source.replace("4711", &now_ms.to_string());
        let answers = attachments.attach(&Found { source, ..other.clone() }, now_ms);
        assert_eq!(answers.complaints, [""; 0]);
    }
    attachments.tick(|_| false, COMPLAINTS_MS);
    assert_eq!(attachments.attach(&other, COMPLAINTS_MS).complaints.len(), 1);
}

#[test]
fn a_process_that_sends_more_than_an_answer_is_left() {
    let (_dir, listener, found) = listen();
    let mut attachments = Attachments::default();
    attachments.attach(&found, 0);
    let (mut other, _) = listener.accept().unwrap();
    other.set_nonblocking(true).unwrap();
    for turn in 0.. {
        let _ = other.write(&lends().repeat(100));
        attachments.turn(1);
        if attachments.all.values().all(|one| one.open.is_none()) {
            break;
        }
        assert!(turn < 1_000, "the sender is read forever");
    }
}

#[test]
fn next_timer_is_asked_and_told_on_the_lease_of_a_farm() {
    let (dir, listener, found) = listen();
    let run_dir = run_dir(&found).unwrap().to_path_buf();
    let mut attachments = Attachments::default();
    attachments.attach(&found, 0);
    let (mut farm, _) = listener.accept().unwrap();
    // Requests may arrive with the answer.
    let asks = b"{\"next_timer_of\":\"g1\"}\n{\"next_timer_of\":\"g2\"}\n";
    farm.write_all(&[&lends()[..], asks].concat()).unwrap();
    let answers = attachments.turn(1);
    assert_eq!(lent(&answers), [Lent::Yes]);
    let asked = ["g1", "g2"].map(|name| (run_dir.clone(), name.to_owned()));
    assert_eq!(answers.timers, asked);
    for in_ms in [Some(43_000), None] {
        let timer = NextTimer { next_timer_of: "g1".into(), in_ms };
        attachments.tell_timer(&run_dir, &timer);
        attachments.tell_timer(&dir.path().join("another"), &timer);
    }
    let mut told = [0; 256];
    let count = farm.read(&mut told).unwrap();
    let (_, told) = told[..count].split_at(encode_lend().len());
    assert_eq!(
        std::str::from_utf8(told).unwrap(),
        concat!(
            r#"{"in_ms":43000,"next_timer_of":"g1"}"#,
            "\n",
            r#"{"in_ms":null,"next_timer_of":"g1"}"#,
            "\n"
        )
    );
    farm.write_all(b"{\"next_timer\":1}\n").unwrap();
    let answers = attachments.turn(2);
    assert_eq!(lent(&answers), [Lent::No]);
    assert!(answers.complaints[0].contains("does not belong to this version"), "{answers:?}");
}

fn encode_lend() -> Vec<u8> {
    encode_request(&Request { id: 1, ask: Ask::Lend })
}

#[test]
fn classes_of_a_farm_are_told_to_its_next_guest_too() {
    let (_dir, listener, found) = listen();
    let mut attachments = Attachments::default();
    assert_eq!(attachments.attach(&found, 0).classes, []);
    let (mut farm, _) = listener.accept().unwrap();
    let classes = [("g1".to_owned(), "we\u{1b}b".to_owned())].into();
    let lent = Answer::Lend(crate::control::Lent { classes });
    farm.write_all(&encode_answer(Some(1), &Ok(lent))).unwrap();
    let classes = [(
        run_dir(&found).unwrap().to_path_buf(),
        Arc::new(BTreeMap::from([("g1".to_owned(), "we\u{fffd}b".to_owned())])),
    )];
    assert_eq!(attachments.turn(1).classes, classes);
    assert_eq!(attachments.attach(&found, 2).classes, classes);
}

#[test]
fn the_run_directory_is_in_the_path() {
    for dir in ["/run/pinhead/up/4711", "/run/user/0/pinhead/up/12", "/tmp/pinhead-7/up/12"] {
        assert_eq!(of_socket(&Path::new(dir).join("g1.qmp")), Some(Path::new(dir)));
    }
    for other in ["/var/run/qemu-server/100.qmp", "/run/pinhead/up/x/g1.qmp", "g1.qmp"] {
        assert_eq!(of_socket(Path::new(other)), None);
    }
    for other in ["/tmp/pinhead-x/up/12/g1.qmp", "/tmp/up/12/g1.qmp", "/pinhead/12/g1.qmp"] {
        assert_eq!(of_socket(Path::new(other)), None);
    }
}

#[test]
fn few_farms_of_a_named_user_are_asked() {
    let farm = |number: u32, owner: u32| {
        (PathBuf::from(format!("/run/user/{owner}/pinhead/up/{number}")), Owner(owner))
    };
    let strangers = (0..20).map(|number| farm(number, 4_242));
    let others = [(PathBuf::from("/run/guests"), Owner::ROOT), farm(7, 4_243)];
    let roots = (0..20).map(|number| farm(number, 0));
    let unclaimed: BTreeSet<_> = strangers.chain(others).chain(roots).collect();
    let asked = |owner| farms_to_ask(&unclaimed).filter(|(_, of)| *of == Owner(owner)).count();
    assert_eq!([asked(0), asked(4_242), asked(4_243)], [20, FARMS_OF_OTHERS, 1]);
}

/// Connects a farm that has handed over its guests.
fn lent_farm(attachments: &mut Attachments, listener: &UnixListener, found: &Found) -> UnixStream {
    attachments.attach(found, 0);
    let (mut farm, _) = listener.accept().unwrap();
    farm.write_all(&lends()).unwrap();
    assert_eq!(lent(&attachments.turn(1)), [Lent::Yes]);
    farm
}

#[test]
fn request_without_an_end_closes_the_connection() {
    let (_dir, listener, found) = listen();
    let mut attachments = Attachments::default();
    let mut farm = lent_farm(&mut attachments, &listener, &found);
    farm.write_all(&[b'x'; REQUEST_MAX]).unwrap();
    assert_eq!(lent(&attachments.turn(2)), []);
    farm.write_all(b"x").unwrap();
    assert_eq!(lent(&attachments.turn(3)), [Lent::No]);
}

#[test]
fn single_bytes_use_up_the_budget_of_reads() {
    let (_dir, listener, found) = listen();
    let mut attachments = Attachments::default();
    let mut farm = lent_farm(&mut attachments, &listener, &found);
    let mut reads = 0;
    while attachments.all.values().all(|one| one.open.is_some()) {
        assert!(farm.write_all(b"\n").is_ok() || reads > 0);
        attachments.turn(4);
        reads += 1;
        assert!(reads <= ANSWER_MAX / READ_COST + 1, "{reads} reads");
    }
}
