//! Targets for metrics: requests of scrapers, and answers of metrics servers.

use ::metrics::http::{HEAD_MAX, Request, Response};
use ::metrics::{ask, rebuild};

/// Parses a scraper's request. The parser must accept or refuse the request as soon as it is
/// complete or too long. Later bytes must change nothing.
pub(crate) fn http_request(data: &[u8]) {
    let parsed = Request::parse(data);
    match parsed {
        Ok(None) => assert!(data.len() < HEAD_MAX),
        Ok(Some(_)) => {
            let longer = [data, b"\r\n\r\nGET / HTTP/1.1\r\n\r\n"].concat();
            assert_eq!(Request::parse(&longer), parsed);
        }
        Err(refusal) => assert!(refusal.answer().starts_with(b"HTTP/1.1 ")),
    }
}

/// Parses a metrics server's response. The status must have three digits, and the body must not be
/// longer than the input.
pub(crate) fn http_response(data: &[u8]) {
    if let Ok(response) = Response::parse(data) {
        assert!((100..1000).contains(&response.status) && response.body.len() <= data.len());
    }
}

/// Parses the JSON of an answer. The key of a moment must be the time of the moment.
pub(crate) fn metrics_answer(data: &[u8]) {
    // A value consists of a time and a number, which take at least five characters.
    assert!(ask::count(data) <= data.len() / 5);
    let Ok(hosts) = rebuild::moments(data) else { return };
    for (at_ms, moment) in hosts.values().flatten() {
        assert_eq!(*at_ms, moment.at_ms);
    }
}
