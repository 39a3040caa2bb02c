//! The client's side: what a server has answered.

use super::request::head_end;

/// Bytes of a response's head. Servers send some hundred.
const HEAD_MAX: usize = 64 * 1024;

/// A whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Its number: 200 is well.
    pub status: u16,
    /// What it brings.
    pub body: Vec<u8>,
}

/// How a body ends.
enum End {
    Length(usize),
    Chunks,
    Connection,
}

impl Response {
    /// Reads everything that came until the server closed the connection. What is wrong with it
    /// is told as a clause.
    pub fn parse(mut heard: &[u8]) -> Result<Response, String> {
        loop {
            let end = head_end(&heard[..heard.len().min(HEAD_MAX)]).ok_or("it has no end")?;
            let head = std::str::from_utf8(&heard[..end]).map_err(|_| "its head is no text")?;
            let (status, ending) = read_head(head)?;
            let empty_line = if heard[end..].starts_with(b"\r\n") { 2 } else { 1 };
            heard = &heard[end + empty_line..];
            match (status, ending) {
                // It only says that it goes on.
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

fn read_head(head: &str) -> Result<(u16, End), String> {
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1));
    let status = status.filter(|digits| digits.len() == 3 && digits.is_ascii());
    let status: Option<u16> = status.and_then(|digits| digits.parse().ok());
    let status = status.filter(|status| *status >= 100).ok_or("it has no status")?;
    let mut end = End::Connection;
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            return Err("a line of its head has no colon".to_owned());
        };
        let value = value.trim();
        if name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") {
                return Err("it comes in an encoding that was not asked for".to_owned());
            }
            end = End::Chunks;
        } else if name.eq_ignore_ascii_case("content-length") && !matches!(end, End::Chunks) {
            end = End::Length(value.parse().map_err(|_| "its length is no number")?);
        } else if name.eq_ignore_ascii_case("content-encoding")
            && !value.eq_ignore_ascii_case("identity")
        {
            return Err("it comes in an encoding that was not asked for".to_owned());
        }
    }
    Ok((status, end))
}

fn chunks(mut heard: &[u8]) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        let end = heard.iter().position(|byte| *byte == b'\n').ok_or("it ends within a chunk")?;
        let line = std::str::from_utf8(&heard[..end]).map_err(|_| "a chunk has no size")?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| "a chunk has no size")?;
        heard = &heard[end + 1..];
        if size == 0 {
            return Ok(body);
        }
        body.extend_from_slice(heard.get(..size).ok_or("it ends within a chunk")?);
        heard = &heard[size..];
        heard = heard.strip_prefix(b"\r\n").or_else(|| heard.strip_prefix(b"\n")).unwrap_or(heard);
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
    fn what_is_cut_is_told() {
        check("", Err("no end"));
        check("HTTP/1.1 200 OK\r\n", Err("no end"));
        check("SSH-2.0 hello\r\n\r\n", Err("no status"));
        check("HTTP/1.1 099 Odd\r\n\r\n", Err("no status"));
        check("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nall", Err("3 of 9"));
        check("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nall", Err("no number"));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for rest in ["", "5\r\nab", "zz\r\n", "ffffffffffffffff\r\nab"] {
            check(&format!("{chunked}{rest}"), Err("chunk"));
        }
        check("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nx", Err("encoding"));
    }
}
