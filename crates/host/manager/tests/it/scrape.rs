//! The server of the metrics, with good and bad clients.

use manager::{Listen, ScrapeServer};
use metrics::Processes;
use model::{GuestField, GuestIdentity, Moment, Row};
use reactor::PollSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;

/// Number of turns that is more than enough for any event.
const TURNS: usize = 10_000;

fn open() -> (ScrapeServer, SocketAddr) {
    let listen = Listen::parse("127.0.0.1:0").expect("an address");
    let mut scrape =
        ScrapeServer::open(&listen, "h".into(), "1".into(), Processes::Left).expect("a server");
    scrape.publish(&moment(300), &|_| true);
    let address = scrape.address().expect("an address");
    (scrape, address)
}

fn moment(guests: u64) -> Moment {
    let mut moment = Moment { at_ms: 1_000, ..Moment::default() };
    for number in 0..guests {
        let mut row = Row::default();
        for field in [GuestField::VcpuRun, GuestField::Exits, GuestField::Actual] {
            row.set(field, Some(number));
        }
        moment
            .guests
            .insert(GuestIdentity { name: format!("g{number}"), ..GuestIdentity::default() }, row);
    }
    moment
}

/// Runs a turn with all ready descriptors.
fn turn(scrape: &mut ScrapeServer, now_ms: u64) {
    let mut set = PollSet::new();
    scrape.fds(&mut set);
    let ready = set.wait(0).expect("a poll");
    scrape.turn(ready.all(), now_ms);
}

fn waiting(scrape: &ScrapeServer) -> usize {
    let mut set = PollSet::new();
    scrape.fds(&mut set);
    set.len() - 1
}

fn client(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).expect("a server");
    client.set_nonblocking(true).expect("a socket");
    client
}

/// Returns all that the server sends before it closes.
fn answer(scrape: &mut ScrapeServer, client: &mut TcpStream, now_ms: u64) -> String {
    let mut output = Vec::new();
    for _ in 0..TURNS {
        turn(scrape, now_ms);
        let mut buffer = [0; 64 * 1024];
        match client.read(&mut buffer) {
            Ok(0) => return String::from_utf8(output).expect("a text"),
            Ok(count) => output.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no end of the answer: {:?}", String::from_utf8_lossy(&output));
}

#[test]
fn a_scraper_is_served_whole_and_again() {
    let (mut scrape, address) = open();
    for _ in 0..3 {
        let mut scraper = client(address);
        scraper.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let text = answer(&mut scrape, &mut scraper, 0);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        assert!(body.contains("\npinhead_guest_exits_total{guest=\"g299\",host=\"h\"} 299\n"));
    }
    let mut scraper = client(address);
    scraper.write_all(b"HEAD /metrics HTTP/1.1\r\n\r\n").unwrap();
    assert!(answer(&mut scrape, &mut scraper, 0).ends_with("\r\n\r\n"));
    assert_eq!(waiting(&scrape), 0);
}

#[test]
fn wrong_requests_are_refused() {
    let (mut scrape, address) = open();
    for (request, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
        (b"DELETE /metrics HTTP/1.1\r\n\r\n", "405"),
        (b"\x16\x03\x01\n\n", "400"),
        (&[b'a'; 9000], "431"),
    ] {
        let mut other = client(address);
        other.write_all(request).unwrap();
        let text = answer(&mut scrape, &mut other, 0);
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
    }
}

#[test]
fn a_client_without_a_request_is_dropped() {
    let (mut scrape, address) = open();
    let mut silent = client(address);
    silent.write_all(b"GET /metr").unwrap();
    for _ in 0..TURNS {
        turn(&mut scrape, 0);
        if waiting(&scrape) == 1 {
            break;
        }
    }
    assert_eq!((waiting(&scrape), scrape.next_ms()), (1, 5_000));
    let text = answer(&mut scrape, &mut silent, 5_000);
    assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
    assert_eq!(waiting(&scrape), 0);
}

#[test]
fn a_client_that_does_not_read_is_dropped() {
    let (mut scrape, address) = open();
    // The text is larger than the buffer of any socket.
    scrape.publish(&moment(60_000), &|_| true);
    let mut deaf = client(address);
    deaf.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    for _ in 0..10 {
        turn(&mut scrape, 0);
    }
    assert_eq!((waiting(&scrape), scrape.next_ms()), (1, 30_000));
    turn(&mut scrape, 30_000);
    assert_eq!(waiting(&scrape), 0);
}

#[test]
fn silent_clients_keep_no_scraper_out() {
    let (mut scrape, address) = open();
    let crowd: Vec<_> = (0..100)
        .map(|_| {
            let one = client(address);
            turn(&mut scrape, 0);
            one
        })
        .collect();
    assert!(waiting(&scrape) <= 16);
    let mut scraper = client(address);
    scraper.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    assert!(answer(&mut scrape, &mut scraper, 0).starts_with("HTTP/1.1 200 OK"));
    drop(crowd);
    for _ in 0..TURNS {
        turn(&mut scrape, 0);
        if waiting(&scrape) == 0 {
            return;
        }
    }
    panic!("{} clients have left and are still there", waiting(&scrape));
}

#[test]
fn a_socket_of_its_own() {
    let dir = std::env::temp_dir().join(format!("pinhead-scrape-{}", std::process::id()));
    let path = dir.join("metrics.sock");
    let listen = Listen::parse(path.to_str().unwrap()).unwrap();
    let mut scrape = ScrapeServer::open(&listen, "h".into(), "1".into(), Processes::Left).unwrap();
    let mut scraper = UnixStream::connect(&path).unwrap();
    scraper.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    turn(&mut scrape, 0);
    let mut text = String::new();
    scraper.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    drop(scrape);
    assert!(!path.exists());
    std::fs::remove_dir_all(dir).unwrap();
}
