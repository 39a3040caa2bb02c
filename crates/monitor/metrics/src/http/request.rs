//! Server side: parsing of requests.

use crate::text::Format;

/// Maximum length of a request's head. A scraper sends about 300 bytes.
pub const HEAD_MAX: usize = 8 * 1024;
const LINES_MAX: usize = 64;
/// Path of the metrics, the only path that is served.
const PATH: &str = "/metrics";

/// A valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// True for GET. False if only the head is requested.
    pub wants_body: bool,
    /// Format of the response.
    pub format: Format,
}

/// Reason for a refused request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request is not HTTP.
    Bad,
    /// The path is not `/metrics`.
    NotFound,
    /// The method is neither GET nor HEAD.
    Method,
    /// The request takes too long.
    Timeout,
    /// The request is too long.
    TooLong,
    /// The HTTP version is not supported.
    Version,
}

impl Refusal {
    fn status(self) -> &'static str {
        match self {
            Refusal::Bad => "400 Bad Request",
            Refusal::NotFound => "404 Not Found",
            Refusal::Method => "405 Method Not Allowed\r\nAllow: GET, HEAD",
            Refusal::Timeout => "408 Request Timeout",
            Refusal::TooLong => "431 Request Header Fields Too Large",
            Refusal::Version => "505 HTTP Version Not Supported",
        }
    }

    /// Returns the whole response.
    pub fn answer(self) -> Vec<u8> {
        let text = "Only GET /metrics is served here.\n";
        head(self.status(), "text/plain; charset=utf-8", text.len(), text).into_bytes()
    }
}

/// Returns the head of a response with a text of this length. The text follows if the client
/// requested it.
pub fn answer(format: Format, length: usize) -> Vec<u8> {
    head("200 OK", format.content_type(), length, "").into_bytes()
}

fn head(status: &str, content_type: &str, length: usize, text: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{text}"
    )
}

impl Request {
    /// Parses a request as far as it has been received; `None` if it is incomplete.
    pub fn parse(heard: &[u8]) -> Result<Option<Request>, Refusal> {
        // No scraper sends empty lines before a request.
        if heard.first().is_some_and(|byte| !byte.is_ascii_graphic()) {
            return Err(Refusal::Bad);
        }
        let mut headers = [httparse::EMPTY_HEADER; LINES_MAX];
        let mut head = httparse::Request::new(&mut headers);
        match head.parse(&heard[..heard.len().min(HEAD_MAX)]) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) if heard.len() < HEAD_MAX => return Ok(None),
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return Err(Refusal::TooLong);
            }
            Err(httparse::Error::Version) => return Err(Refusal::Version),
            Err(_) => return Err(Refusal::Bad),
        }
        let (Some(method), Some(target)) = (head.method, head.path) else {
            return Err(Refusal::Bad);
        };
        let accept = head.headers.iter().rfind(|one| one.name.eq_ignore_ascii_case("accept"));
        let accept = accept.and_then(|one| std::str::from_utf8(one.value).ok());
        let wants_body = match method {
            "GET" => true,
            "HEAD" => false,
            _ => return Err(Refusal::Method),
        };
        // Query parameters are ignored.
        if target.split('?').next() != Some(PATH) {
            return Err(Refusal::NotFound);
        }
        Ok(Some(Request { wants_body, format: Format::accepted(accept) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<Option<Request>, Refusal>) {
        assert_eq!(Request::parse(text.as_bytes()), expected, "{text:?}");
    }

    #[test]
    fn scrapes() {
        let plain = Request { wants_body: true, format: Format::Prometheus };
        check("GET /metrics HTTP/1.1\r\n\r\n", Ok(Some(plain)));
        check("GET /metrics?a=b HTTP/1.0\r\nHost: x\r\n\r\nmore", Ok(Some(plain)));
        check("GET /metrics HTTP/1.1\nHost: x\n\n", Ok(Some(plain)));
        let head = Request { wants_body: false, format: Format::OpenMetrics };
        let text = "HEAD /metrics HTTP/1.1\r\naccept: application/openmetrics-text\r\n\r\n";
        check(text, Ok(Some(head)));
        for end in 0..text.len() {
            check(&text[..end], Ok(None));
        }
    }

    #[test]
    fn everything_else() {
        check("GET / HTTP/1.1\r\n\r\n", Err(Refusal::NotFound));
        check("GET /metrics/ HTTP/1.1\r\n\r\n", Err(Refusal::NotFound));
        check("POST /metrics HTTP/1.1\r\n\r\n", Err(Refusal::Method));
        check("GET /metrics HTTP/2\r\n\r\n", Err(Refusal::Version));
        check("GET /metrics\r\n\r\n", Err(Refusal::Bad));
        check("\r\n\r\n", Err(Refusal::Bad));
        check("GET /metrics HTTP/1.1\r\nno colon\r\n\r\n", Err(Refusal::Bad));
        check("GET /metrics HTTP/1.1\r\n: x\r\n\r\n", Err(Refusal::Bad));
        check(&"x".repeat(HEAD_MAX), Err(Refusal::TooLong));
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(LINES_MAX + 1));
        check(&many, Err(Refusal::TooLong));
        assert_eq!(Request::parse(b"GET /\xff HTTP/1.1\r\n\r\n"), Err(Refusal::Bad));
    }

    #[test]
    fn a_refusal_is_a_whole_answer() {
        let text = String::from_utf8(Refusal::NotFound.answer()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 404 Not Found\r\n"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    }
}
