//! Compression of responses. A page of a hundred guests shrinks to a tenth.

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Minimum size in bytes of a response that is compressed. The compression of a smaller response
/// does not pay.
const LEAST: usize = 1_000;
/// Maximum size of a response, in bytes.
const MOST: usize = 64 << 20;

/// Returns true if a browser accepts compressed responses.
pub(crate) fn is_taken(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let names = |text: &str| {
        let is_gzip = |one: &str| {
            let mut parts = one.split(';').map(str::trim);
            parts.next() == Some("gzip") && parts.next() != Some("q=0")
        };
        text.split(',').any(is_gzip)
    };
    accepted.is_some_and(names)
}

/// Compresses a response, unless it is a stream of events. Compression would delay the events.
pub(crate) async fn squeezed(answer: Response) -> Response {
    let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_text = kind.is_some_and(|kind| {
        (kind.starts_with("text/") && !kind.starts_with("text/event-stream"))
            || kind.starts_with("application/json")
    });
    if !is_text || answer.headers().contains_key(header::CONTENT_ENCODING) {
        return answer;
    }
    let (mut head, body) = answer.into_parts();
    let Ok(bytes) = to_bytes(body, MOST).await else {
        return Response::from_parts(head, Body::empty());
    };
    head.headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if bytes.len() < LEAST {
        return Response::from_parts(head, Body::from(bytes));
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 6), Compression::fast());
    // Writing to memory cannot fail.
    let Some(packed) = encoder.write_all(&bytes).ok().and_then(|()| encoder.finish().ok()) else {
        return Response::from_parts(head, Body::from(bytes));
    };
    head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, Body::from(packed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_is_compressed_only_for_gzip_clients() {
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(text));
            is_taken(&headers)
        };
        assert!(of("gzip") && of("br, gzip;q=0.8"));
        assert!(!of("br") && !of("gzip;q=0") && !is_taken(&HeaderMap::new()));
    }
}
