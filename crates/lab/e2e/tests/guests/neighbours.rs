//! Network of a guest. A guest reaches neither its host nor other guests, unless it is linked.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use e2e::farms::Farm;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use vm::images;

/// `REACHED` is the response of the host's own services, and `PAGE` is in the page of each guest.
const REACHED: &str = "reached the host";
const PAGE: &str = "Line 1 of a page";
/// Timeout of each attempt, in seconds.
const TRIES: u32 = 10;

/// A service of the host that counts its connections.
struct HostService {
    port: u16,
    visitors: Arc<AtomicUsize>,
}

impl HostService {
    fn at(address: Ipv4Addr) -> HostService {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let visitors = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&visitors);
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                counted.fetch_add(1, Ordering::SeqCst);
                let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", REACHED.len());
                let _ = stream.write_all(format!("{head}{REACHED}").as_bytes());
                // If the connection were closed while the sender still writes, the sender would
                // lose the response.
                let _ = stream.read(&mut [0; 1024]);
            }
        });
        HostService { port, visitors }
    }
}

fn page(address: Ipv4Addr, port: u16) -> String {
    let mut stream = TcpStream::connect((address, port)).unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns an address of the host other than its loopback address. Nothing is sent.
fn other_address() -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    // The target is an address reserved for documentation.
    socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9)).ok()?;
    match socket.local_addr().unwrap().ip() {
        std::net::IpAddr::V4(address) => Some(address),
        std::net::IpAddr::V6(_) => None,
    }
}

/// Requests a page from each of these addresses in a guest, all at the same time, and returns the
/// results. The guest must first get a page from itself.
fn attempts(farm: &Farm, guest: &str, targets: &[(&str, String)]) -> Vec<String> {
    let asked = [&[("itself", "127.0.0.1 80".to_owned())], targets].concat();
    let mut script = String::new();
    for (at, (_, target)) in asked.iter().enumerate() {
        let ask = format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w {TRIES} {target}");
        script.push_str(&format!("{{ {ask}; }} > /run/got{at} 2>&1 & "));
    }
    script.push_str("wait; ");
    for at in 0..asked.len() {
        let show = "tr -d '\\r' | tr '\\n' ' ' | head -c 300; echo";
        script.push_str(&format!("cat /run/got{at} | {show}; "));
    }
    let output = farm.succeed(&["exec", &farm.guest(guest), "--", "sh", "-c", &script]);
    let lines: Vec<String> = output.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), asked.len(), "{output}");
    for ((what, target), line) in asked.iter().zip(&lines) {
        println!("{guest} asks {what} at {target}: {line:.90}");
    }
    assert!(is_served(&lines[0]), "the guest's own page is served: {output}");
    lines[1..].to_vec()
}

fn is_served(line: &str) -> bool {
    line.contains(REACHED) || line.contains(PAGE)
}

#[test]
fn finding_02_a_guest_reaches_neither_its_host_nor_a_neighbour() {
    let farm = Farm::new(
        "alone",
        "[[class]]\nname = 'own'\nimage = 'web'\nports = [{ guest = 80, host = 27280 }]\n\
         [[class]]\nname = 'other'\nimage = 'web'\nports = [{ guest = 80, host = 27290 }]\n",
        e2e::share(2),
    );
    farm.succeed(&["up", &farm.file(), "--detach"]);
    let loopback = HostService::at(Ipv4Addr::LOCALHOST);
    let everywhere = HostService::at(Ipv4Addr::UNSPECIFIED);
    let mut targets = vec![
        ("the host's loopback", format!("10.0.0.2 {}", loopback.port)),
        ("a neighbour's port", "10.1.0.2 80".to_owned()),
        ("a neighbour's forwarded port", "10.0.0.2 27290".to_owned()),
    ];
    match other_address() {
        Some(address) => {
            assert!(page(address, everywhere.port).contains(REACHED), "others reach it");
            let target = format!("{address} {}", everywhere.port);
            targets.push(("the host's other address", target));
        }
        None => println!("the host has no other address than its loopback's"),
    }
    let before = everywhere.visitors.load(Ordering::SeqCst);
    for (target, line) in targets.iter().zip(attempts(&farm, "own1", &targets)) {
        assert!(!is_served(&line), "{target:?}: {line}");
    }
    assert_eq!(loopback.visitors.load(Ordering::SeqCst), 0);
    assert_eq!(everywhere.visitors.load(Ordering::SeqCst), before);

    // The host can still use the port that it forwards to the guest.
    let own = page(Ipv4Addr::LOCALHOST, 27280);
    println!("the host asks 127.0.0.1:27280: {} bytes", own.len());
    assert!(own.len() > images::PAGE_BYTES, "{own}");
}

/// Two clones are linked to a booted guest. Another guest is not linked.
#[test]
fn finding_02_a_link_leads_to_one_port_of_one_guest() {
    let farm = Farm::new(
        "links",
        "[[class]]\nname = 'web'\nimage = 'web'\ntemplate = true\nmemory = '128 MiB'\ncount = 2\n\
         links = [{ to = 'db', port = 80 }]\n\
         [[class]]\nname = 'db'\nimage = 'web'\n[[class]]\nname = 'not'\nimage = 'web'\n",
        e2e::share(4),
    );
    farm.succeed(&["up", &farm.file(), "--detach"]);
    // A second server on db1 listens on a port without a link.
    let serve = "echo Line 1 of a page > /run/second; \
                 setsid sh -c 'while :; do nc -l -p 81 < /run/second; done' > /dev/null 2>&1 & \
                 until nc -w 1 127.0.0.1 81 < /dev/null 2> /dev/null | grep -q page; \
                 do usleep 100000; done";
    farm.succeed(&["exec", &farm.guest("db1"), "--", "sh", "-c", serve]);
    let to = |target: &str| target.to_owned();
    let asked = [
        ("its link by name", to("db 80")),
        ("its link by address", to("10.0.1.2 80")),
        ("its link once more", to("db 80")),
        ("another port", to("db 81")),
        ("the server's own address", to("10.1.0.3 80")),
        ("the other clone", to("10.1.0.2 80")),
    ];
    for guest in ["web1", "web2"] {
        let lines = attempts(&farm, guest, &asked);
        // web2 reaches itself at its own address, which needs no network.
        let is_itself = guest == "web2";
        let expected = [true, true, true, false, false, is_itself];
        let served: Vec<bool> = lines.iter().map(|line| is_served(line)).collect();
        assert_eq!(served, expected, "{guest}: {lines:?}");
    }
    let back = [("its client", to("10.1.0.1 80"))];
    assert!(!is_served(&attempts(&farm, "db1", &back)[0]), "a server cannot reach its client");
    let foreign = [("a link of others", to("10.0.1.2 80")), ("by name", to("db 80"))];
    assert!(!attempts(&farm, "not1", &foreign).iter().any(|line| is_served(line)));
    // A page of 27 KiB arrives whole, several times, at a clone that was not the template.
    let many = "for n in $(seq 15); do wget -q -O - http://db/ | wc -c; done | sort | uniq -c";
    let counts = farm.succeed(&["exec", &farm.guest("web2"), "--", "sh", "-c", many]);
    println!("web2 asks 15 times: {}", counts.trim());
    let words: Vec<&str> = counts.split_ascii_whitespace().collect();
    assert_eq!(words, ["15", &images::PAGE_BYTES.to_string()], "{counts}");
}
