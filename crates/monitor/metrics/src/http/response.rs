//! Client side: parsing of responses.

/// Maximum length of a response's head. Servers send some hundred bytes.
const HEAD_MAX: usize = 64 * 1024;
const LINES_MAX: usize = 100;

/// A complete response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status code. 200 means success.
    pub status: u16,
    /// Body of the response.
    pub body: Vec<u8>,
}

/// Rule by which the end of a body is found.
enum End {
    Length(usize),
    Chunks,
    Connection,
}

impl Response {
    /// Parses everything that arrived before the server closed the connection. An error is part of
    /// a sentence.
    pub fn parse(mut heard: &[u8]) -> Result<Response, String> {
        loop {
            let (length, status, ending) = read_head(&heard[..heard.len().min(HEAD_MAX)])?;
            heard = &heard[length..];
            match (status, ending) {
                // An interim response precedes the final response.
                (100..=199, _) => {}
                (204 | 304, _) => return Ok(Response { status, body: Vec::new() }),
                (_, End::Connection) => return Ok(Response { status, body: heard.to_vec() }),
                (_, End::Chunks) => return Ok(Response { status, body: chunks(heard)? }),
                (_, End::Length(length)) => {
                    let body = heard.get(..length).ok_or_else(|| {
                        format!("it ends after {} of {length} bytes", heard.len())
                    })?;
                    return Ok(Response { status, body: body.to_vec() });
                }
            }
        }
    }
}

/// Returns the head's length, the status, and the framing of the body.
fn read_head(heard: &[u8]) -> Result<(usize, u16, End), String> {
    let mut headers = [httparse::EMPTY_HEADER; LINES_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let length = match head.parse(heard) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Err("its headers are incomplete".to_owned()),
        Err(httparse::Error::Version | httparse::Error::Status) => {
            return Err("it has no status".to_owned());
        }
        Err(error) => return Err(format!("its headers are malformed: {error}")),
    };
    let status = head.code.filter(|code| *code >= 100).ok_or("it has no status")?;
    let mut end = End::Connection;
    for header in head.headers {
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        let is_plain = match value {
            _ if is("transfer-encoding") => {
                end = End::Chunks;
                value.eq_ignore_ascii_case("chunked")
            }
            _ if is("content-encoding") => value.eq_ignore_ascii_case("identity"),
            _ => true,
        };
        if !is_plain {
            return Err("it has an encoding that was not requested".to_owned());
        }
        if is("content-length") && !matches!(end, End::Chunks) {
            end = End::Length(value.parse().map_err(|_| "its length is not a number")?);
        }
    }
    Ok((length, status, end))
}

fn chunks(mut heard: &[u8]) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        let (at, size) = match httparse::parse_chunk_size(heard) {
            Ok(httparse::Status::Complete(found)) => found,
            Ok(httparse::Status::Partial) => return Err("it ends within a chunk".to_owned()),
            Err(_) => return Err("a chunk has no size".to_owned()),
        };
        if size == 0 {
            return Ok(body);
        }
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let rest = &heard[at..];
        body.extend_from_slice(rest.get(..size).ok_or("it ends within a chunk")?);
        heard = rest[size..].strip_prefix(b"\r\n").unwrap_or(&rest[size..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<(u16, &str), &str>) {
        let found = Response::parse(text.as_bytes());
        let found = found.map(|r| (r.status, String::from_utf8(r.body).unwrap()));
        match (&found, expected) {
            (Ok((status, body)), Ok(right)) => assert_eq!((*status, body.as_str()), right),
            (Err(reason), Err(right)) => assert!(reason.contains(right), "{reason}"),
            _ => panic!("{text:?} is {found:?} and not {expected:?}"),
        }
    }

    #[test]
    fn bodies_end_in_three_ways() {
        check("HTTP/1.1 200 OK\r\n\r\nall", Ok((200, "all")));
        check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nall", Ok((200, "al")));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            2;x=y\r\nab\r\nA\r\n0123456789\r\n0\r\n\r\n";
        check(chunked, Ok((200, "ab0123456789")));
        check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", Ok((204, "")));
    }

    #[test]
    fn truncated_response_is_an_error() {
        check("", Err("headers are incomplete"));
        check("HTTP/1.1 200 OK\r\n", Err("headers are incomplete"));
        check("SSH-2.0 hello\r\n\r\n", Err("no status"));
        check("HTTP/1.1 099 Odd\r\n\r\n", Err("no status"));
        check("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nall", Err("3 of 9"));
        check("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nall", Err("not a number"));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for rest in ["", "5\r\nab", "zz\r\n", "ffffffffffffffff\r\nab"] {
            check(&format!("{chunked}{rest}"), Err("chunk"));
        }
        check("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nx", Err("encoding"));
    }
}
