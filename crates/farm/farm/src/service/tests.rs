use super::*;
use crate::fleet::tests::config;
use manager::control::{Request, decode_answer, encode_request};
use reactor::is_passing;
use std::io::Read;
use std::io::{BufRead, BufReader, Write};
use vm::Scratch;

/// Number of guests. Their table is larger than a socket's buffer.
const GUESTS: usize = 1_500;

fn turn(service: &mut Service, fleet: &mut Fleet) {
    let mut set = PollSet::new();
    service.fds(&mut set);
    let ready = set.wait(0).unwrap();
    service.turn(&ready, &[], fleet);
}

fn farm(scratch: &Scratch) -> (Service, Fleet) {
    let configs = (0..GUESTS).map(|number| config(&format!("guest-{number}"))).collect();
    let occupant = Occupant {
        class: "web".into(),
        ports: Vec::new(),
        command: None,
        shares: 100,
        password: None,
    };
    let service = Service::open(scratch.path(), None, vec![occupant; GUESTS]).unwrap();
    (service, Fleet::of(configs, 1))
}

fn asking(scratch: &Scratch, ask: Ask) -> UnixStream {
    let mut client = UnixStream::connect(scratch.path().join(SOCKET)).unwrap();
    client.write_all(&encode_request(&Request { id: 1, ask })).unwrap();
    client
}

#[test]
fn finding_15_clients_that_do_not_read_hold_nobody_up() {
    let scratch = Scratch::new("service-slow").unwrap();
    let (mut service, mut fleet) = farm(&scratch);
    let asking = || asking(&scratch, Ask::Farm);
    let silent: Vec<UnixStream> = (0..reactor::ACCEPTS_A_TURN).map(|_| asking()).collect();
    turn(&mut service, &mut fleet);
    // No client reads before this turn is over. A service that waited for a reader would time out,
    // and send only half an answer. Here each client gets its table when it reads, while the next
    // client is served.
    turn(&mut service, &mut fleet);
    for client in [asking()].into_iter().chain(silent) {
        client.set_nonblocking(true).unwrap();
        let mut reader = BufReader::new(client);
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            match reader.read_until(b'\n', &mut line) {
                Ok(count) => assert!(count > 0 || line.ends_with(b"\n"), "half a table"),
                Err(error) => assert!(is_passing(&error), "{error}"),
            }
            turn(&mut service, &mut fleet);
        }
        let Ok((_, Ok(Answer::Farm(table)))) = decode_answer(&line) else { panic!("no table") };
        assert_eq!(table.guests.len(), GUESTS);
    }
}

#[test]
fn a_service_that_is_left_out_lets_go_of_its_manager() {
    let scratch = Scratch::new("service-left").unwrap();
    let (mut service, mut fleet) = farm(&scratch);
    let mut manager = asking(&scratch, Ask::Lend);
    turn(&mut service, &mut fleet);
    turn(&mut service, &mut fleet);
    assert!(service.manager.is_some());
    service.drop_manager(&mut fleet);
    // The connection ends even if a large answer was still being sent.
    manager.read_to_end(&mut Vec::new()).unwrap();
    assert!(service.manager.is_none());
}

/// All connections come from this process, so each client counts as the farm's own manager.
#[test]
fn manager_waits_until_the_own_one_has_ended() {
    let scratch = Scratch::new("service-waits").unwrap();
    let (mut service, mut fleet) = farm(&scratch);
    let lend = |service: &mut Service, fleet: &mut Fleet| {
        let manager = asking(&scratch, Ask::Lend);
        manager.set_nonblocking(true).unwrap();
        (0..2).for_each(|_| turn(service, fleet));
        manager
    };
    let answer = |manager: &UnixStream| {
        let mut line = Vec::new();
        let read = BufReader::new(manager).read_until(b'\n', &mut line);
        read.is_ok().then(|| decode_answer(&line).unwrap().1)
    };
    let own = lend(&mut service, &mut fleet);
    assert_eq!(service.manager_pid(), Some(std::process::id()));
    let next = lend(&mut service, &mut fleet);
    assert_eq!(answer(&next), None, "it waits");
    let third = lend(&mut service, &mut fleet);
    let refused = answer(&third).unwrap().unwrap_err();
    assert_eq!(
        refused.message,
        "Another `pinhead host` manages these guests already; end it first"
    );
    drop((own, third));
    (0..2).for_each(|_| turn(&mut service, &mut fleet));
    assert!(matches!(answer(&next), Some(Ok(Answer::Lend(_)))), "{next:?}");
    drop(next);
    (0..2).for_each(|_| turn(&mut service, &mut fleet));
    assert_eq!(service.manager_pid(), None);
}
