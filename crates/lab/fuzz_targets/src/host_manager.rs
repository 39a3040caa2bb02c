//! Targets for the host manager: its settings, and the messages to the manager and to its keeper.

use crate::input::stand_in;
use base::Bytes;
use manager::config::{Place, parse};
use manager::control::{
    NextTimer, Request, decode_answer, decode_message, decode_request, encode_answer,
    encode_message, encode_request,
};
use manager::keeper;

/// Reads a file of settings. The settings of an accepted file must be consistent for every guest
/// and host. A refused file must have errors with positions in the text.
pub(crate) fn host_toml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let place = Place { is_root: true, host_total: Some(Bytes::mib(4096)), ..Place::default() };
    match parse(text, &place) {
        Ok(settings) => {
            let total = Bytes::mib(4096);
            let config = settings.arbiter(total);
            assert!(config.reserve < config.set_point && config.set_point < total);
            assert!(config.hysteresis < config.set_point.less(config.reserve));
            for memory in [Bytes::ZERO, Bytes::mib(96), Bytes(u64::MAX)] {
                let (limits, _) = settings.limits("web-1", memory);
                assert!(limits.min <= limits.max && limits.max <= memory && limits.shares > 0);
            }
        }
        Err(faults) => stand_in(text, &faults),
    }
}

/// Decodes lines from a client, lines to a client, and lines to the manager's keeper. A decoded
/// line must have the same meaning when it is encoded and decoded again.
pub(crate) fn host_control(data: &[u8]) {
    for line in data.split(|byte| *byte == b'\n') {
        match decode_request(line) {
            Ok(Request { id, ask }) => {
                let again = encode_request(&Request { id, ask: ask.clone() });
                assert_eq!(decode_request(again.trim_ascii_end()), Ok(Request { id, ask }));
            }
            Err(bad) => {
                let text = bad.failure.to_string();
                assert!(!text.is_empty() && !text.contains(char::is_control), "{text:?}");
            }
        }
        if let Ok((id, answer)) = decode_answer(line) {
            // Only the ids are compared, because a fractional number may change slightly.
            let again = decode_answer(&encode_answer(id, &answer));
            assert!(again.is_ok_and(|(again, _)| again == id));
        }
        if let Some(timer) = decode_message::<NextTimer>(line) {
            assert_eq!(decode_message(&encode_message(&timer)), Some(timer));
        }
        if let Some(order) = keeper::decode(line) {
            let again = keeper::encode(&order);
            assert_eq!(keeper::decode(again.trim_ascii_end()), Some(order));
        }
    }
}
