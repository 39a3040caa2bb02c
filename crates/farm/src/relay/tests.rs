use super::*;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::Duration;
use vm::Forward;

const PATIENCE: Duration = Duration::from_secs(60);

/// A guest's ports, relayed; a server where its QEMU would listen; and its door.
fn relayed(relay: &mut Relay) -> (u16, TcpListener, Door) {
    let mut net = Net::new(1);
    // A port that is free at our address may be taken by others before it is ours: then another.
    for _ in 0..100 {
        let server = TcpListener::bind((Net::random_address().unwrap(), 0)).unwrap();
        let port = server.local_addr().unwrap().port();
        net.forwards = vec![Forward { host_port: port, guest_port: 80 }];
        if let Ok(door) = relay.door(&net) {
            return (port, server, door);
        }
    }
    panic!("no port is free");
}

/// Lets clients in to a server that is taken for one of the process behind this descriptor.
fn open(door: &Door, server: &TcpListener, process: OwnedFd) {
    open_to(door, server, process, rustix::process::geteuid().as_raw());
}

/// The same for a QEMU of this user.
fn open_to(door: &Door, server: &TcpListener, process: OwnedFd, user: u32) {
    let IpAddr::V4(address) = server.local_addr().unwrap().ip() else { panic!("IPv6") };
    door.open(Far::new(process, user, address));
}

/// This process, which runs.
fn ours() -> OwnedFd {
    pidfd_open(getpid(), PidfdFlags::empty()).unwrap()
}

fn connect(port: u16) -> TcpStream {
    let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

fn accept(server: &TcpListener) -> TcpStream {
    let (guest, _) = server.accept().unwrap();
    guest.set_read_timeout(Some(PATIENCE)).unwrap();
    guest
}

fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

fn news(relay: &Relay) {
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(
        relay.fd().unwrap(),
        rustix::event::PollFlags::IN,
    )];
    let limit = rustix::event::Timespec::try_from(PATIENCE).unwrap();
    assert_eq!(rustix::event::poll(&mut fds, Some(&limit)), Ok(1), "nothing was told");
    relay.drain();
}

#[test]
fn bytes_and_ends_are_passed_on_both_ways() {
    let mut relay = Relay::default();
    let (port, server, door) = relayed(&mut relay);
    open(&door, &server, ours());
    let mut client = connect(port);
    let mut guest = accept(&server);
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut question = Vec::new();
    guest.read_to_end(&mut question).unwrap();
    assert_eq!(question, b"question");
    // More than fits into any buffer, to one who reads slowly.
    let answer: Vec<u8> = (0..8 << 20).map(|at: u32| (at % 251) as u8).collect();
    let sent = answer.clone();
    let writes = std::thread::spawn(move || guest.write_all(&sent).unwrap());
    let mut got = Vec::new();
    client.read_to_end(&mut got).unwrap();
    writes.join().unwrap();
    assert!(got == answer, "{} bytes", got.len());
}

#[test]
fn a_guest_that_answers_and_reads_no_more_is_heard_to_its_end() {
    let mut relay = Relay::default();
    let (port, server, door) = relayed(&mut relay);
    open(&door, &server, ours());
    let mut client = connect(port);
    let mut guest = accept(&server);
    client.write_all(b"question").unwrap();
    read(&mut guest, 8);
    // It fits into what the kernel keeps for it, and the guest has read all that was sent.
    let answer = vec![7; 100_000];
    guest.write_all(&answer).unwrap();
    drop(guest);
    let mut got = read(&mut client, 1);
    // What is sent to one who is gone changes nothing about the rest of what it has said.
    client.write_all(b"more").unwrap();
    got.extend(read(&mut client, 1));
    client.write_all(b"and more").unwrap();
    got.extend(read(&mut client, answer.len() - got.len()));
    assert!(got == answer);
}

#[test]
fn who_comes_to_a_door_that_is_shut_waits_and_is_told_of() {
    let mut relay = Relay::default();
    let (port, server, door) = relayed(&mut relay);
    assert!(!door.is_wanted());
    let mut clients = [connect(port), connect(port)];
    clients[1].write_all(b"1").unwrap();
    news(&relay);
    assert!(door.is_wanted());
    open(&door, &server, ours());
    let mut guests = [accept(&server), accept(&server)];
    assert!(!door.is_wanted());
    clients[0].write_all(b"0").unwrap();
    let mut heard = guests.each_mut().map(|guest| read(guest, 1)[0]);
    heard.sort_unstable();
    assert_eq!(&heard, b"01");
    // Both have spoken: they cannot be left alone, however long they say nothing more.
    guests[0].write_all(b"x").unwrap();
    guests[1].write_all(b"x").unwrap();
    for client in &mut clients {
        read(client, 1);
    }
    assert_eq!(door.shut(0), Err(2));
    assert!(!door.is_silent(0));
    // Their QEMU is gone: so are they, with what it had said.
    door.slam();
    for guest in &mut guests {
        guest.write_all(b"last").unwrap();
    }
    drop(guests);
    for client in &mut clients {
        assert_eq!(read(client, 4), b"last");
    }
    for client in &mut clients {
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
    drop(door);
    let gone = || TcpStream::connect(("127.0.0.1", port)).is_err();
    let deadline = vm::Deadline::after(PATIENCE);
    while !gone() {
        assert!(deadline.remaining().is_some(), "somebody listens at a door that is gone");
    }
}

#[test]
fn who_has_said_nothing_does_not_notice_that_the_guest_comes_and_goes() {
    let mut relay = Relay::default();
    let (port, server, door) = relayed(&mut relay);
    open(&door, &server, ours());
    let mut client = connect(port);
    let mut before = accept(&server);
    assert_eq!(door.shut(60_000), Err(1), "it has just come");
    door.shut(0).unwrap();
    assert_eq!(before.read(&mut [0]).unwrap(), 0, "the guest's end is closed");
    assert!(!door.is_wanted());
    client.write_all(b"late").unwrap();
    news(&relay);
    assert!(door.is_wanted());
    open(&door, &server, ours());
    let mut after = accept(&server);
    assert_eq!(read(&mut after, 4), b"late");
    after.write_all(b"answer").unwrap();
    assert_eq!(read(&mut client, 6), b"answer");
}

/// Silent clients of one door keep no place that another client wants, nor do those of all doors.
#[test]
fn finding2_11_silent_clients_give_their_places_up() {
    for places in [Places { inside_max: 3, all_max: 8 }, Places { inside_max: 8, all_max: 3 }] {
        let mut relay = Relay { running: Some(start(places).unwrap()) };
        let (port, server, door) = relayed(&mut relay);
        open(&door, &server, ours());
        let mut speaks = connect(port);
        let mut spoken_to = accept(&server);
        speaks.write_all(b"1").unwrap();
        assert_eq!(read(&mut spoken_to, 1), b"1");
        let mut silent = [connect(port), connect(port)];
        // That a server speaks first makes no client of its one.
        let mut ends = [accept(&server), accept(&server)];
        ends[0].write_all(b"h").unwrap();
        assert_eq!(read(&mut silent[0], 1), b"h");
        let mut late = connect(port);
        late.write_all(b"late").unwrap();
        assert_eq!(read(&mut accept(&server), 4), b"late");
        assert_eq!(silent[0].read(&mut [0]).unwrap(), 0, "the oldest silent one keeps its place");
        spoken_to.write_all(b"2").unwrap();
        assert_eq!(read(&mut speaks, 1), b"2");
    }
}

/// A QEMU that has ended may have left its address to somebody else.
#[test]
fn finding2_01_a_client_gets_nothing_from_another_server() {
    let mut relay = Relay::default();
    let (port, server, door) = relayed(&mut relay);
    let mut qemu = Command::new("true").spawn().unwrap();
    let process = pidfd_open(Pid::from_child(&qemu), PidfdFlags::empty()).unwrap();
    qemu.wait().unwrap();
    open(&door, &server, process);
    assert_tells_nothing(port, &server);
}

/// A QEMU on its way to its end has closed its ports, and its process is there.
#[test]
fn finding2_01_another_users_server_gets_no_bytes_of_a_client() {
    let mut relay = Relay::default();
    let (port, server, door) = relayed(&mut relay);
    open_to(&door, &server, ours(), rustix::process::geteuid().as_raw() + 1);
    assert_tells_nothing(port, &server);
}

/// A client at this port, and a server in the place of its guest, get nothing from each other.
fn assert_tells_nothing(port: u16, server: &TcpListener) {
    let mut client = connect(port);
    client.write_all(b"secret").unwrap();
    let mut squatted = accept(server);
    // It may have been left already.
    let _ = squatted.write_all(b"lie");
    let mut heard = Vec::new();
    // Closed, or reset for the word that nobody has read.
    let _ = squatted.read_to_end(&mut heard);
    assert_eq!(heard, b"", "its word is passed on to a stranger");
    let mut got = Vec::new();
    let _ = client.read_to_end(&mut got);
    assert_eq!(got, b"");
}

#[test]
fn a_port_that_is_another_s_is_named() {
    let mut relay = Relay::default();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let forwards = vec![Forward { host_port: port, guest_port: 80 }];
    let net = Net { forwards, ..Net::new(1) };
    let error = relay.door(&net).unwrap_err().to_string();
    assert!(error.starts_with(&format!("port {port} cannot be listened at: ")), "{error}");
}
