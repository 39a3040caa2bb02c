//! The decoder with QEMU's messages, and with input that QEMU never sends.

use qmp::{Decoder, Error, Failure, MESSAGE_BYTES_MAX, Message};
use serde_json::json;

const GREETING: &str = concat!(
    r#"{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "#,
    r#""package": "Debian 1:7.2"}, "capabilities": ["oob"]}}"#,
    "\r\n"
);
const EVENT: &str = concat!(
    r#"{"timestamp": {"seconds": 1700000000, "microseconds": 5}, "#,
    r#""event": "BALLOON_CHANGE", "data": {"actual": 67108864}}"#,
    "\r\n"
);

fn decode(bytes: &[u8]) -> Vec<Result<Message, Error>> {
    let mut decoder = Decoder::new();
    decoder.feed(bytes);
    decoder.by_ref().collect()
}

#[test]
fn the_four_messages() {
    let text = format!(
        "{GREETING}{EVENT}{}\r\n{}\r\n",
        r#"{"return": {}, "id": 3}"#,
        r#"{"id": 4, "error": {"class": "GenericError", "desc": "No balloon"}}"#
    );
    let expected = vec![
        Ok(Message::Greeting),
        Ok(Message::Event { name: "BALLOON_CHANGE".into(), data: json!({ "actual": 67_108_864 }) }),
        Ok(Message::Return { id: Some(3), value: json!({}) }),
        Ok(Message::Failure {
            id: Some(4),
            failure: Failure { class: "GenericError".into(), desc: "No balloon".into() },
        }),
    ];
    assert_eq!(decode(text.as_bytes()), expected);
}

#[test]
fn any_split_of_the_stream_gives_the_same_messages() {
    let stream = format!("{GREETING}{EVENT}\r\n{EVENT}").into_bytes();
    let whole = decode(&stream);
    assert_eq!(whole.len(), 3);
    for chunk_bytes in 1..stream.len() {
        let mut decoder = Decoder::new();
        let mut messages = Vec::new();
        for chunk in stream.chunks(chunk_bytes) {
            decoder.feed(chunk);
            messages.extend(decoder.by_ref());
        }
        assert_eq!(messages, whole, "with chunks of {chunk_bytes} bytes");
        assert_eq!(decoder.buffered_bytes(), 0);
    }
}

#[test]
fn rubbish_costs_its_own_line_only() {
    let mut stream = b"\xff\xfe\n{]\n[1]\n{\"neither\":1}\n{\"error\":{}}\n".to_vec();
    stream.extend_from_slice(EVENT.as_bytes());
    let messages = decode(&stream);
    assert_eq!(messages[0], Err(Error::Utf8 { offset: 0 }));
    assert!(matches!(messages[1], Err(Error::Json { column: 2, .. })), "{:?}", messages[1]);
    assert_eq!(messages[2], Err(Error::Shape { member: "(object)" }));
    assert!(matches!(messages[3], Err(Error::Shape { .. })));
    assert_eq!(messages[4], Err(Error::Shape { member: "class" }));
    assert!(matches!(messages[5], Ok(Message::Event { .. })));
    assert_eq!(messages.len(), 6);
}

#[test]
fn an_endless_line_is_dropped_once_and_memory_stays_bounded() {
    let mut decoder = Decoder::new();
    let chunk = vec![b'a'; 64 * 1024];
    let mut errors = 0;
    for _ in 0..64 {
        decoder.feed(&chunk);
        errors += decoder.by_ref().filter(Result::is_err).count();
        assert!(decoder.buffered_bytes() <= MESSAGE_BYTES_MAX);
    }
    assert_eq!(errors, 1, "one line is one error, however long it is");
    decoder.feed(b"tail of the lost line\n");
    decoder.feed(EVENT.as_bytes());
    let messages: Vec<_> = decoder.by_ref().collect();
    assert!(matches!(messages.as_slice(), [Ok(Message::Event { .. })]), "{messages:?}");
}

#[test]
fn a_long_line_that_arrives_with_its_newline_is_refused_too() {
    let mut stream = vec![b' '; MESSAGE_BYTES_MAX + 1];
    stream.push(b'\n');
    stream.extend_from_slice(EVENT.as_bytes());
    let messages = decode(&stream);
    assert_eq!(messages[0], Err(Error::TooLong { limit_bytes: MESSAGE_BYTES_MAX }));
    assert!(messages[1].is_ok());
}

#[test]
fn brackets_cannot_exhaust_the_stack() {
    let mut line = vec![b'['; MESSAGE_BYTES_MAX - 1];
    line.push(b'\n');
    assert!(matches!(decode(&line).as_slice(), [Err(Error::Json { .. })]));
}

/// Every single-byte change, cut and doubling of a real conversation. The decoder must not panic,
/// and must decode the unchanged next line.
#[test]
fn mutated_stream_never_panics_and_never_costs_the_next_line() {
    let seed = format!("{GREETING}{EVENT}");
    let bytes = seed.as_bytes();
    for position in 0..bytes.len() {
        for replacement in [0x00, b'"', b'{', b'}', b'\n', b'9', 0x80, 0xff] {
            let mut mutated = bytes.to_vec();
            mutated[position] = replacement;
            check_survives(&mutated);
        }
        check_survives(&bytes[..position]);
        check_survives(&[&bytes[..position], &bytes[position / 2..]].concat());
    }
}

/// A fixed pseudo-random sequence of the characters that have a meaning in JSON.
#[test]
fn random_json_like_bytes_never_panic() {
    const ALPHABET: &[u8] = b"{}[]\",:\\ue0123456789.-+truefalsn \r\n\x00\xc3\xa9\xff";
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut lines = 0;
    for _ in 0..2000 {
        let bytes: Vec<u8> = (0..200)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                ALPHABET[(state >> 33) as usize % ALPHABET.len()]
            })
            .collect();
        lines += check_survives(&bytes);
    }
    assert!(lines > 2000, "the walk must reach the parser: {lines} lines");
}

fn check_survives(bytes: &[u8]) -> usize {
    let mut decoder = Decoder::new();
    decoder.feed(bytes);
    let lines = decoder.by_ref().count();
    decoder.feed(b"\n");
    let lines = lines + decoder.by_ref().count();
    decoder.feed(EVENT.as_bytes());
    let last = decoder.next();
    assert!(matches!(last, Some(Ok(Message::Event { .. }))), "after {bytes:?}: {last:?}");
    lines
}
