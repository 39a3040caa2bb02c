use super::*;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::Duration;
use vm::Forward;

const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a relayed port of a guest, a server in place of its QEMU, and the door.
fn relayed(relay: &mut Relay) -> (u16, TcpListener, Door) {
    let mut net = Net::new(1);
    // A port that is free at the server's address may be in use on 127.0.0.1. In that case another
    // port is tried.
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

/// Opens the door to a server that stands in for the process behind this descriptor.
fn open(door: &Door, server: &TcpListener, process: OwnedFd) {
    open_to(door, server, process, rustix::process::geteuid().as_raw());
}

/// Does the same as `open`, for a QEMU that runs as this user.
fn open_to(door: &Door, server: &TcpListener, process: OwnedFd, user: u32) {
    let IpAddr::V4(address) = server.local_addr().unwrap().ip() else { panic!("IPv6") };
    door.open(Far::new(process, user, address));
}

/// Returns a descriptor of this process, which runs.
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
    assert_eq!(rustix::event::poll(&mut fds, Some(&limit)), Ok(1), "no wake-up came");
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
    // The answer does not fit into the buffers, so the guest has to wait for the client.
    let answer: Vec<u8> = (0..8 << 20).map(|at: u32| (at % 251) as u8).collect();
    let sent = answer.clone();
    let writes = std::thread::spawn(move || guest.write_all(&sent).unwrap());
    let mut got = Vec::new();
    client.read_to_end(&mut got).unwrap();
    writes.join().unwrap();
    assert!(got == answer, "{} bytes", got.len());
}

#[test]
fn answer_of_guest_that_stopped_reading_is_relayed_in_full() {
    let mut relay = Relay::default();
    let (port, server, door) = relayed(&mut relay);
    open(&door, &server, ours());
    let mut client = connect(port);
    let mut guest = accept(&server);
    client.write_all(b"question").unwrap();
    read(&mut guest, 8);
    // The answer fits into the kernel's buffers, and the guest has read everything that was sent.
    let answer = vec![7; 100_000];
    guest.write_all(&answer).unwrap();
    drop(guest);
    let mut got = read(&mut client, 1);
    // Data sent after the guest has closed its end does not cut off the rest of the answer.
    client.write_all(b"more").unwrap();
    got.extend(read(&mut client, 1));
    client.write_all(b"and more").unwrap();
    got.extend(read(&mut client, answer.len() - got.len()));
    assert!(got == answer);
}

#[test]
fn client_at_closed_door_waits_and_is_reported() {
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
    // Both clients have sent data, so the door does not close even after a long silence.
    guests[0].write_all(b"x").unwrap();
    guests[1].write_all(b"x").unwrap();
    for client in &mut clients {
        read(client, 1);
    }
    assert_eq!(door.shut(0), Err(2));
    assert!(!door.is_silent(0));
    // The QEMU is gone, so the connections end after its last data.
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
        assert!(deadline.remaining().is_some(), "the port of a dropped door is open");
    }
}

#[test]
fn silent_client_survives_park_and_wake_of_its_guest() {
    let mut relay = Relay::default();
    let (port, server, door) = relayed(&mut relay);
    open(&door, &server, ours());
    let mut client = connect(port);
    let mut before = accept(&server);
    assert_eq!(door.shut(60_000), Err(1), "the client has just come");
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

/// Silent clients are displaced by others, at the limit of one door and at the common limit.
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
        // Data from the server alone does not make a client count as active.
        let mut ends = [accept(&server), accept(&server)];
        ends[0].write_all(b"h").unwrap();
        assert_eq!(read(&mut silent[0], 1), b"h");
        let mut late = connect(port);
        late.write_all(b"late").unwrap();
        assert_eq!(read(&mut accept(&server), 4), b"late");
        assert_eq!(silent[0].read(&mut [0]).unwrap(), 0, "oldest silent client keeps its place");
        spoken_to.write_all(b"2").unwrap();
        assert_eq!(read(&mut speaks, 1), b"2");
    }
}

/// The address of an ended QEMU may have been taken by another process.
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

/// A QEMU about to end has closed its ports while its process still exists.
#[test]
fn finding2_01_another_users_server_gets_no_bytes_of_a_client() {
    let mut relay = Relay::default();
    let (port, server, door) = relayed(&mut relay);
    open_to(&door, &server, ours(), rustix::process::geteuid().as_raw() + 1);
    assert_tells_nothing(port, &server);
}

/// Asserts that a client at this port and a foreign server get no data from each other.
fn assert_tells_nothing(port: u16, server: &TcpListener) {
    let mut client = connect(port);
    client.write_all(b"secret").unwrap();
    let mut squatted = accept(server);
    // The connection may be closed already.
    let _ = squatted.write_all(b"lie");
    let mut heard = Vec::new();
    // The connection is closed, or reset because of the unread data.
    let _ = squatted.read_to_end(&mut heard);
    assert_eq!(heard, b"", "data was relayed to a stranger");
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
    assert!(error.starts_with(&format!("cannot listen on port {port}: ")), "{error}");
}
