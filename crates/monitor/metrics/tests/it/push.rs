//! Tests of pushes to a server that is down, is overloaded, or refuses the pushes.

use metrics::{Pusher, Url};
use model::{GuestIdentity, HostField, Moment, Row};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(30);

fn moment(at_ms: i64) -> Moment {
    let mut moment = Moment { at_ms, ..Moment::default() };
    moment.host.set(HostField::Cpus, Some(2));
    moment
}

/// Starts a server that answers its connections with these statuses, in this order. The receiver
/// returns the head and the decompressed body of each request.
fn server(statuses: &'static [&'static str]) -> (SocketAddr, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for status in statuses {
            serve(&listener, status, &sender);
        }
    });
    (address, receiver)
}

fn serve(listener: &TcpListener, status: &str, sender: &Sender<(String, Vec<u8>)>) {
    let (mut stream, _) = listener.accept().expect("a client");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut heard = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).expect("a request");
        assert!(count > 0, "the pusher closed the connection");
        heard.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&heard);
        let Some(end) = text.find("\r\n\r\n") else { continue };
        let head = text[..end].to_owned();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length: usize = length.expect("a length").parse().expect("a number");
        // The head is ASCII, so its length in bytes and in characters is the same.
        if heard.len() >= end + 4 + length {
            let body = snap::raw::Decoder::new().decompress_vec(&heard[end + 4..]).expect("Snappy");
            stream
                .write_all(format!("HTTP/1.1 {status}\r\n\r\nnot now\x1b[2J").as_bytes())
                .expect("a reader");
            let _ = sender.send((head, body));
            return;
        }
    }
}

fn start(address: SocketAddr) -> Pusher {
    let url = Url::parse(&format!("http://{address}/api/v1/write")).expect("an address");
    Pusher::start(url, "h".into(), "1".into()).expect("a thread")
}

/// Waits until the pusher's state satisfies a condition, with a timeout.
fn until(pusher: &Pusher, is_right: impl Fn(&metrics::push::Health) -> bool) {
    let (_alive, never) = channel::<()>();
    for _ in 0..3000 {
        if is_right(&pusher.health()) {
            return;
        }
        let _ = never.recv_timeout(Duration::from_millis(10));
    }
    panic!("{:?}", pusher.health());
}

#[test]
fn failed_push_is_retried_in_order() {
    let (address, requests) = server(&["503 Service Unavailable", "204 No", "200 OK"]);
    let pusher = start(address);
    pusher.offer(&moment(1000));
    pusher.offer(&moment(2000));
    let mut bodies = Vec::new();
    for _ in 0..3 {
        let (head, body) = requests.recv_timeout(PATIENCE).unwrap();
        assert!(head.starts_with("POST /api/v1/write HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("\r\nContent-Encoding: snappy\r\n"), "{head}");
        assert!(head.contains("\r\nX-Prometheus-Remote-Write-Version: 0.1.0"), "{head}");
        bodies.push(body);
    }
    assert_eq!(bodies[0], bodies[1], "the same body is sent again");
    assert_ne!(bodies[1], bodies[2]);
    until(&pusher, |health| health.pushed == 2 && health.trouble.is_none());
}

#[test]
fn refused_push_is_reported_and_skipped() {
    let (address, requests) = server(&["400 Bad Request", "204 No"]);
    let pusher = start(address);
    pusher.offer(&moment(1000));
    requests.recv_timeout(PATIENCE).unwrap();
    until(&pusher, |health| health.refused == 1);
    let trouble = pusher.health().trouble.unwrap();
    assert!(trouble.contains("responds with 400: not now\\u{1b}[2J"), "{trouble}");
    pusher.offer(&moment(2000));
    requests.recv_timeout(PATIENCE).unwrap();
    until(&pusher, |health| health.pushed == 1 && health.trouble.is_none());
}

#[test]
fn queue_is_bounded_by_the_bytes_of_its_names() {
    let (address, requests) = server(&[]);
    assert!(requests.recv_timeout(PATIENCE).is_err());
    let pusher = start(address);
    let name = "x".repeat(2 << 20);
    let who = GuestIdentity { name, ..GuestIdentity::default() };
    for second in 0..40 {
        let guests = [(who.clone(), Row::default())].into();
        pusher.offer(&Moment { guests, ..moment(second * 1000) });
    }
    let lost = pusher.health().lost;
    assert_eq!(lost, 9, "31 of 2 MiB and a little have room in 64 MiB, with the one under way");
    pusher.offer(&moment(40_000));
    assert_eq!(pusher.health().lost, lost, "a small one has room");
}

#[test]
fn pusher_does_not_block_when_its_server_is_down() {
    let (address, requests) = server(&[]);
    // The server's thread has ended and closed its socket once the channel is closed.
    assert!(requests.recv_timeout(PATIENCE).is_err());
    let pusher = start(address);
    (0..100).for_each(|second| pusher.offer(&moment(second * 1000)));
    let health = pusher.health();
    assert!((39..=40).contains(&health.lost), "60 wait, and one is under way: {health:?}");
    until(&pusher, |health| {
        health.trouble.as_ref().is_some_and(|trouble| trouble.contains("refused"))
    });
    drop(pusher);
}
