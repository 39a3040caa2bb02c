//! The server's side: what a client asks for.

use crate::text::Format;

/// Bytes of a request up to its empty line. A scraper's has 300.
pub const HEAD_MAX: usize = 8 * 1024;
/// Lines of it.
const LINES_MAX: usize = 64;
/// The only thing that is served.
const PATH: &str = "/metrics";

/// A request that can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whether the text is wanted, or its head only.
    pub wants_body: bool,
    /// How it is to be written.
    pub format: Format,
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is no HTTP.
    Bad,
    /// It is for something else than `/metrics`.
    NotFound,
    /// It wants to do more than read.
    Method,
    /// It takes too long.
    Timeout,
    /// It does not end.
    TooLong,
    /// It is a later HTTP, or an earlier one.
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

    /// The whole answer.
    pub fn answer(self) -> Vec<u8> {
        let text = "Only GET /metrics is served here.\n";
        head(self.status(), "text/plain; charset=utf-8", text.len(), text).into_bytes()
    }
}

/// The head of the answer to a request whose text has this many bytes. The text follows it, if
/// it is wanted.
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
    /// Reads what has come of a request so far; `None` if it has not ended yet.
    pub fn parse(heard: &[u8]) -> Result<Option<Request>, Refusal> {
        // Empty lines before a request are no request of a scraper.
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
        // Parameters are for servers that have some.
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
