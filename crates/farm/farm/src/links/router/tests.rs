use super::*;

const WEB: u32 = 1;
const OTHER_WEB: u32 = 2;
const DB: u32 = 3;
const STRANGER: u32 = 4;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// Returns the address that both web servers use for the database.
fn db_address() -> Ipv4Addr {
    super::super::class_address(1)
}

fn router() -> Router {
    let link = |client| Link { client, address: db_address(), port: 5432, server: DB };
    Router::new(&[link(WEB), link(OTHER_WEB)])
}

fn net(number: u32) -> Net {
    Net { linked: true, ..Net::new(number) }
}

/// Returns the internet checksum of these bytes: 0 if they contain their own correct checksum.
fn sum(bytes: impl IntoIterator<Item = u8>) -> u16 {
    let bytes: Vec<u8> = bytes.into_iter().collect();
    let word = |two: &[u8]| u32::from(two[0]) << 8 | two.get(1).map_or(0, |&byte| u32::from(byte));
    let mut all: u32 = bytes.chunks(2).map(word).sum();
    while all > 0xffff {
        all = (all >> 16) + (all & 0xffff);
    }
    !(all as u16)
}

/// Returns the TCP checksum of a frame, including the pseudo-header.
fn tcp_sum(frame: &[u8]) -> u16 {
    let tcp = &frame[34..];
    let length = (tcp.len() as u16).to_be_bytes();
    sum(frame[26..34].iter().chain(&[0, 6]).chain(&length).chain(tcp).copied())
}

fn tcp(from: u32, to: (Ipv4Addr, u16), source_port: u16, flags: u8) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(switch_mac(to.0));
    frame.extend(net(from).mac());
    frame.extend([8, 0, 0x45, 0, 0, 43, 0, 7, 0x40, 0, 64, 6, 0, 0]);
    frame.extend(net(from).address().octets());
    frame.extend(to.0.octets());
    frame.extend(source_port.to_be_bytes());
    frame.extend(to.1.to_be_bytes());
    frame.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    frame.extend(b"abc");
    let ip = sum(frame[14..34].iter().copied()).to_be_bytes();
    frame[24..26].copy_from_slice(&ip);
    let tcp = tcp_sum(&frame).to_be_bytes();
    frame[50..52].copy_from_slice(&tcp);
    frame
}

fn arp(from: u32, target: Ipv4Addr) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend(net(from).mac());
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(net(from).mac());
    frame.extend(net(from).address().octets());
    frame.extend([0; 6]);
    frame.extend(target.octets());
    frame
}

fn assert_sums(frame: &[u8]) {
    assert_eq!((sum(frame[14..34].iter().copied()), tcp_sum(frame)), (0, 0));
}

#[test]
fn a_connection_goes_there_and_back() {
    let router = router();
    let mut question = tcp(WEB, (db_address(), 5432), 40_000, SYN);
    assert_sums(&question);
    assert_eq!(router.route(WEB, &mut question), Route::To(DB));
    assert_sums(&question);
    assert_eq!(question[..6], net(DB).mac());
    assert_eq!(question[30..34], net(DB).address().octets());
    assert_eq!(question[26..30], net(WEB).address().octets(), "the client's address stays");

    let mut answer = tcp(DB, (net(WEB).address(), 40_000), 5432, SYN | ACK);
    assert_eq!(router.route(DB, &mut answer), Route::To(WEB));
    assert_sums(&answer);
    assert_eq!(answer[..6], net(WEB).mac());
    assert_eq!(answer[26..30], db_address().octets(), "as if the address of the class answered");
    assert_eq!(&answer[54..], b"abc");
}

#[test]
fn finding_02_frame_without_a_link_goes_nowhere() {
    let router = router();
    let leads_nowhere = |from, mut frame: Vec<u8>, what: &str| {
        assert_eq!(router.route(from, &mut frame), Route::Own, "{what}");
    };
    let db = (db_address(), 5432);
    leads_nowhere(WEB, tcp(WEB, (db_address(), 22), 40_000, SYN), "another port");
    leads_nowhere(
        WEB,
        tcp(WEB, (net(DB).address(), 5432), 40_000, SYN),
        "the server's own address",
    );
    leads_nowhere(WEB, tcp(WEB, (net(OTHER_WEB).address(), 80), 40_000, SYN), "a neighbour");
    leads_nowhere(
        WEB,
        tcp(WEB, (net(OTHER_WEB).address(), 80), 5432, ACK),
        "a forged response to a neighbour",
    );
    leads_nowhere(WEB, tcp(WEB, (Ipv4Addr::new(10, 0, 0, 2), 80), 40_000, SYN), "the gateway");
    leads_nowhere(STRANGER, tcp(STRANGER, db, 40_000, SYN), "a guest without links");
    leads_nowhere(DB, tcp(DB, (net(WEB).address(), 80), 40_000, SYN), "a connection from a server");
    leads_nowhere(
        DB,
        tcp(DB, (net(WEB).address(), 80), 5432, SYN),
        "a connection from a server's port",
    );
    leads_nowhere(DB, tcp(DB, (net(WEB).address(), 80), 5433, ACK), "another port's answer");
    leads_nowhere(
        DB,
        tcp(DB, (net(STRANGER).address(), 80), 5432, ACK),
        "a response without a request",
    );
    leads_nowhere(WEB, tcp(OTHER_WEB, db, 40_000, SYN), "a neighbour's addresses");
    let mut forged = tcp(WEB, db, 40_000, SYN);
    forged[26..30].copy_from_slice(&net(OTHER_WEB).address().octets());
    leads_nowhere(WEB, forged, "a neighbour's address");
    let changed = |at: usize, value: u8| {
        let mut frame = tcp(WEB, db, 40_000, SYN);
        frame[at] = value;
        frame
    };
    leads_nowhere(WEB, changed(20, 0x20), "a first fragment");
    leads_nowhere(WEB, changed(21, 1), "a later fragment");
    leads_nowhere(WEB, changed(23, 17), "UDP");
    leads_nowhere(WEB, changed(14, 0x65), "another version");
    leads_nowhere(WEB, changed(14, 0x44), "too short a header");
    leads_nowhere(WEB, changed(14, 0x4f), "a header longer than the packet");
    leads_nowhere(WEB, changed(17, 255), "a packet longer than the frame");
    leads_nowhere(WEB, changed(17, 39), "a packet too short for TCP");
    leads_nowhere(WEB, changed(13, 0xdd), "IPv6");
    let whole = tcp(WEB, db, 40_000, SYN);
    for length in 0..54 {
        leads_nowhere(WEB, whole[..length].to_vec(), "a part of a frame");
    }
}

#[test]
fn address_is_resolved_only_for_linked_guests() {
    let router = router();
    for (from, target) in [(WEB, db_address()), (DB, net(OTHER_WEB).address())] {
        let mut frame = arp(from, target);
        assert_eq!(router.route(from, &mut frame), Route::Back);
        assert_eq!(frame[..6], net(from).mac());
        assert_eq!((&frame[20..22], &frame[22..28]), (&[0, 2][..], &switch_mac(target)[..]));
        assert_eq!(frame[28..32], target.octets());
        assert_eq!(frame[32..38], net(from).mac());
        assert_eq!(frame[38..42], net(from).address().octets());
    }
    for (from, target) in [
        (WEB, net(DB).address()),
        (WEB, net(OTHER_WEB).address()),
        (WEB, Ipv4Addr::new(10, 0, 0, 2)),
        (DB, net(STRANGER).address()),
    ] {
        assert_eq!(router.route(from, &mut arp(from, target)), Route::Own, "{target}");
    }
    let mut forged = arp(WEB, db_address());
    forged[28..32].copy_from_slice(&net(OTHER_WEB).address().octets());
    assert_eq!(router.route(WEB, &mut forged), Route::Own);
    let mut other = arp(WEB, db_address());
    other[22..28].copy_from_slice(&net(OTHER_WEB).mac());
    assert_eq!(router.route(WEB, &mut other), Route::Own, "sender and ARP request differ");
    for length in 0..42 {
        assert_eq!(router.route(WEB, &mut arp(WEB, db_address())[..length]), Route::Own);
    }
}
