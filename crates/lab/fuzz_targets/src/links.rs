//! Target for the frames of linked guests, which the farm's switch reads and changes.

use ::farm::links::{Link, Route, Router, class_address};
use vm::Net;

/// Two clients of one server. The fourth guest has no links.
const CLIENTS: [u32; 2] = [1, 2];
const SERVER: u32 = 3;
const GUESTS: u32 = 4;

/// Forwards a frame. The first byte of the input selects the sender. The frame must reach only the
/// sender's partner. Only addresses and checksums may change, and a correct checksum must stay
/// correct.
pub(crate) fn link_frames(data: &[u8]) {
    let Some((from, frame)) = data.split_first() else { return };
    let from = u32::from(*from) % GUESTS + 1;
    let address = class_address(0);
    let link = |client| Link { client, address, port: 5432, server: SERVER };
    let router = Router::new(&CLIENTS.map(link));
    let mut changed = frame.to_vec();
    let route = router.route(from, &mut changed);
    assert_eq!(changed.len(), frame.len());
    let net = |number| Net { linked: true, ..Net::new(number) };
    match route {
        Route::Own => assert_eq!(changed, frame, "a frame that is not for a link stays unchanged"),
        Route::Back => {
            assert_eq!(changed[..6], net(from).mac());
            assert_eq!(changed[12..14], [8, 6]);
            assert_eq!(changed[32..38], net(from).mac());
        }
        Route::To(to) => {
            assert!(CLIENTS.contains(&from) != CLIENTS.contains(&to), "{from} to {to}");
            assert!([from, to].contains(&SERVER), "{from} to {to}");
            assert_eq!(changed[..6], net(to).mac());
            assert_eq!(changed[30..34], net(to).address().octets());
            let (seen, port) = match to {
                SERVER => (net(from).address(), 2),
                _ => (address, 0),
            };
            assert_eq!(changed[26..30], seen.octets());
            let tcp = 14 + usize::from(frame[14] & 0x0f) * 4;
            assert_eq!(changed[tcp + port..tcp + port + 2], 5432_u16.to_be_bytes());
            let kept = |at: &usize| !(24..34).contains(at) && !(tcp + 16..tcp + 18).contains(at);
            assert!((12..frame.len()).filter(kept).all(|at| frame[at] == changed[at]));
            let header = |frame: &[u8]| sum(&frame[14..tcp]);
            assert_eq!(header(&changed), header(frame));
            let segment = |frame: &[u8]| sum(&[&frame[26..34], &frame[tcp..]].concat());
            assert_eq!(segment(&changed), segment(frame));
        }
    }
}

/// Returns the sum of all 16-bit words modulo 65,535. A correct update of a frame's checksums keeps
/// this sum.
fn sum(bytes: &[u8]) -> u32 {
    let word = |two: &[u8]| u32::from(two[0]) << 8 | two.get(1).map_or(0, |&byte| u32::from(byte));
    bytes.chunks(2).map(word).sum::<u32>() % 0xffff
}
