//! Targets for the metrics: what scrapers say, and what engines answer.

use ::metrics::http::{HEAD_MAX, Request, Response};
use ::metrics::{ask, rebuild};

/// A scraper's request: it is understood or refused as soon as it is whole or too long, and what
/// follows it changes nothing.
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

/// An engine's answer: what is made of it has no more than came, and moments stand by their time.
pub(crate) fn http_response(data: &[u8]) {
    if let Ok(response) = Response::parse(data) {
        assert!((100..1000).contains(&response.status) && response.body.len() <= data.len());
    }
}

/// The JSON of an answer.
pub(crate) fn metrics_answer(data: &[u8]) {
    // A value is a time and a number, of five letters at least.
    assert!(ask::count(data) <= data.len() / 5);
    let Ok(hosts) = rebuild::moments(data) else { return };
    for (at_ms, moment) in hosts.values().flatten() {
        assert_eq!(*at_ms, moment.at_ms);
    }
}
