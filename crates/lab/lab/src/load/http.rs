//! HTTP/1.1 for a client: a request's text, and the end of a response. No I/O.
//!
//! ```text
//!   bytes ─► Answer::feed ─► the status, once all is there (the body is counted and thrown away)
//! ```

use std::net::SocketAddr;

/// Maximum size of a response's head: more than our servers send, and small enough for thousands of
/// connections.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;
const HEADERS_MAX: usize = 256;
/// Maximum length of a line between the chunks of a body. The line has a number, and extensions
/// that are not used.
const CHUNK_LINE_BYTES_MAX: usize = 1024;
/// Maximum number of lines after the last chunk.
const TRAILER_LINES_MAX: usize = 128;
/// Maximum size of a body, so that a body without an end is not read forever.
pub const BODY_BYTES_MAX: u64 = 4 << 30;
/// Maximum number of interim responses (100 Continue) that are skipped.
const INTERIM_MAX: usize = 8;

/// Returns a request for a page. The path is used unchanged: [`super::Plan::check`] has validated
/// it.
pub fn request(address: SocketAddr, path: &str, is_kept_alive: bool) -> Vec<u8> {
    let connection = if is_kept_alive { "keep-alive" } else { "close" };
    format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: pinhead-load\r\nAccept: */*\r\n\
         Connection: {connection}\r\n\r\n"
    )
    .into_bytes()
}

/// A fault in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    #[error("The answer does not begin with a head of HTTP/1")]
    Head(#[source] httparse::Error),
    #[error("The answer has no status from 200 to 599")]
    Status,
    #[error("The answer's head is longer than 32 KiB")]
    HeadTooLong,
    #[error("The answer's length is not one number")]
    Length,
    #[error("A chunk of the answer does not have the length in its header")]
    Chunk,
    #[error("The answer's body is longer than 4 GiB")]
    BodyTooLong,
    #[error("The answer is longer than the length in its head")]
    Surplus,
    #[error("The connection ended before the answer")]
    Cut,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Head,
    /// The body, with the number of bytes that are missing.
    Length(u64),
    ChunkSize,
    /// A chunk, with the number of bytes that are missing.
    Chunk(u64),
    ChunkEnd,
    /// The lines after the last chunk, with the number of lines read so far.
    Trailer(usize),
    /// Everything until the connection ends.
    UntilEnd,
    Done,
}

/// A response being received.
#[derive(Debug, Default)]
pub struct Answer {
    part: Part,
    /// The head, or a line between chunks, as far as received.
    kept: Vec<u8>,
    status: u16,
    body_bytes: u64,
    is_kept_alive: bool,
    interim: usize,
}

impl Answer {
    /// Returns the received bytes of the body.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Returns true if the server leaves the connection open for the next request.
    pub fn is_kept_alive(&self) -> bool {
        self.is_kept_alive && self.part == Part::Done
    }

    /// Parses received bytes. Returns the status when the response is complete.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<Option<u16>, Wrong> {
        while !bytes.is_empty() {
            bytes = match self.part {
                Part::Head => self.head(bytes)?,
                Part::Length(left) => {
                    let left = self.body(&mut bytes, left)?;
                    self.part = if left == 0 { Part::Done } else { Part::Length(left) };
                    bytes
                }
                Part::Chunk(left) => {
                    let left = self.body(&mut bytes, left)?;
                    self.part = if left == 0 { Part::ChunkEnd } else { Part::Chunk(left) };
                    bytes
                }
                Part::ChunkSize | Part::ChunkEnd | Part::Trailer(_) => self.line(bytes)?,
                Part::UntilEnd => {
                    self.body(&mut bytes, u64::MAX)?;
                    bytes
                }
                Part::Done => return Err(Wrong::Surplus),
            };
        }
        Ok((self.part == Part::Done).then_some(self.status))
    }

    /// Handles the end of the connection. Returns the status if the response is complete.
    pub fn end(&mut self) -> Result<u16, Wrong> {
        match self.part {
            Part::UntilEnd | Part::Done => {
                self.part = Part::Done;
                Ok(self.status)
            }
            _ => Err(Wrong::Cut),
        }
    }

    /// Counts the part of `bytes` that belongs to the body. Returns the number of missing bytes.
    fn body(&mut self, bytes: &mut &[u8], left: u64) -> Result<u64, Wrong> {
        let here = left.min(bytes.len() as u64);
        *bytes = bytes.get(here as usize..).unwrap_or_default();
        self.body_bytes = self.body_bytes.saturating_add(here);
        if self.body_bytes > BODY_BYTES_MAX {
            return Err(Wrong::BodyTooLong);
        }
        Ok(left - here)
    }

    fn head<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Wrong> {
        // The end of the head may be split across two pieces, so the last three bytes of the
        // previous piece are searched again.
        let from = self.kept.len().saturating_sub(3);
        let before = self.kept.len();
        let room = HEAD_BYTES_MAX.saturating_sub(before).min(bytes.len());
        self.kept.extend_from_slice(&bytes[..room]);
        let Some(at) = self.kept[from..].windows(4).position(|window| window == b"\r\n\r\n") else {
            let is_full = room < bytes.len() || self.kept.len() >= HEAD_BYTES_MAX;
            return if is_full { Err(Wrong::HeadTooLong) } else { Ok(&[]) };
        };
        let end = from + at + 4;
        let head = std::mem::take(&mut self.kept);
        self.read_head(&head[..end])?;
        Ok(bytes.get(end - before..).unwrap_or_default())
    }

    fn read_head(&mut self, head: &[u8]) -> Result<(), Wrong> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        response.parse(head).map_err(Wrong::Head)?;
        self.status = match response.code {
            Some(100..200) if self.interim < INTERIM_MAX => {
                self.interim += 1;
                return Ok(());
            }
            Some(status @ 200..600) => status,
            _ => return Err(Wrong::Status),
        };
        self.is_kept_alive = response.version == Some(1);
        let (mut length, mut is_chunked) = (None, false);
        for header in response.headers {
            let value = String::from_utf8_lossy(header.value).to_ascii_lowercase();
            match header.name.to_ascii_lowercase().as_str() {
                "content-length" => {
                    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
                    let number = value.parse::<u64>().ok().filter(|_| is_number);
                    let number = number.ok_or(Wrong::Length)?;
                    if length.is_some_and(|length| length != number) {
                        return Err(Wrong::Length);
                    }
                    length = Some(number);
                }
                "transfer-encoding" => is_chunked = value.ends_with("chunked"),
                "connection" => {
                    self.is_kept_alive &= !value.contains("close");
                    self.is_kept_alive |= value.contains("keep-alive");
                }
                _ => {}
            }
        }
        self.part = match length {
            _ if matches!(self.status, 204 | 304) => Part::Done,
            _ if is_chunked => Part::ChunkSize,
            Some(0) => Part::Done,
            Some(length) if length > BODY_BYTES_MAX => return Err(Wrong::BodyTooLong),
            Some(length) => Part::Length(length),
            None => Part::UntilEnd,
        };
        Ok(())
    }

    fn line<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Wrong> {
        let newline = bytes.iter().position(|byte| *byte == b'\n');
        let here = newline.map_or(bytes.len(), |at| at + 1);
        if self.kept.len() + here > CHUNK_LINE_BYTES_MAX {
            return Err(Wrong::Chunk);
        }
        self.kept.extend_from_slice(&bytes[..here]);
        if newline.is_some() {
            let line = std::mem::take(&mut self.kept);
            self.part = self.after_line(&line)?;
        }
        Ok(&bytes[here..])
    }

    fn after_line(&self, line: &[u8]) -> Result<Part, Wrong> {
        let is_empty = line == b"\r\n";
        match self.part {
            Part::ChunkSize => match httparse::parse_chunk_size(line) {
                Ok(httparse::Status::Complete((_, 0))) => Ok(Part::Trailer(0)),
                Ok(httparse::Status::Complete((_, size))) => Ok(Part::Chunk(size)),
                _ => Err(Wrong::Chunk),
            },
            Part::Trailer(_) if is_empty => Ok(Part::Done),
            Part::Trailer(lines) if lines < TRAILER_LINES_MAX => Ok(Part::Trailer(lines + 1)),
            Part::ChunkEnd if is_empty => Ok(Part::ChunkSize),
            _ => Err(Wrong::Chunk),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a text in pieces of various sizes, which must all give the same result.
    fn read(text: &str) -> Result<(Option<u16>, u64, bool), Wrong> {
        let all = |size: usize| {
            let mut answer = Answer::default();
            let mut status = None;
            for piece in text.as_bytes().chunks(size) {
                status = answer.feed(piece)?;
            }
            Ok((status, answer.body_bytes(), answer.is_kept_alive()))
        };
        let whole = all(usize::MAX >> 1);
        for size in 1..8 {
            assert_eq!(all(size), whole, "in pieces of {size}: {text:?}");
        }
        whole
    }

    #[test]
    fn the_head_of_an_answer_determines_its_end() {
        let done = |status, bytes, kept| Ok((Some(status), bytes, kept));
        let ok = "HTTP/1.1 200 OK\r\n";
        assert_eq!(read(&format!("{ok}Content-Length: 3\r\n\r\nabc")), done(200, 3, true));
        assert_eq!(read(&format!("{ok}content-length:0\r\n\r\n")), done(200, 0, true));
        let close = "Connection: close\r\nContent-Length: 1\r\n\r\nx";
        assert_eq!(read(&format!("{ok}{close}")), done(200, 1, false));
        assert_eq!(read("HTTP/1.0 404 No\r\nContent-Length: 0\r\n\r\n"), done(404, 0, false));
        assert_eq!(read("HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n"), done(304, 0, true));
        let chunks = "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\nA;x=y\r\n0123456789\r\n\
                      0\r\nX: y\r\n\r\n";
        assert_eq!(read(&format!("{ok}{chunks}")), done(200, 14, true));
        let interim = format!("HTTP/1.1 100 Continue\r\n\r\n{ok}Content-Length: 2\r\n\r\nab");
        assert_eq!(read(&interim), done(200, 2, true));
    }

    #[test]
    fn answers_without_a_length_end_with_the_connection() {
        let mut answer = Answer::default();
        assert_eq!(answer.feed(b"HTTP/1.0 200 OK\r\n\r\nsome"), Ok(None));
        assert_eq!(answer.end(), Ok(200));
        assert_eq!((answer.body_bytes(), answer.is_kept_alive()), (4, false));
        let mut answer = Answer::default();
        assert_eq!(answer.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsom"), Ok(None));
        assert_eq!(answer.end(), Err(Wrong::Cut));
    }

    #[test]
    fn faults_are_distinguished() {
        let ok = "HTTP/1.1 200 OK\r\n";
        for (text, wrong) in [
            ("SSH-2.0-x\r\n\r\n".to_owned(), Wrong::Head(httparse::Error::Version)),
            ("HTTP/1.1 20 OK\r\n\r\n".to_owned(), Wrong::Head(httparse::Error::Status)),
            ("HTTP/1.1 600 OK\r\n\r\n".to_owned(), Wrong::Status),
            ("HTTP/1.1 100 C\r\n\r\n".repeat(9), Wrong::Status),
            (format!("{ok}nonsense\r\n\r\n"), Wrong::Head(httparse::Error::HeaderName)),
            (format!("{ok}X: {}\r\n\r\n", "y".repeat(HEAD_BYTES_MAX)), Wrong::HeadTooLong),
            (format!("{ok}Content-Length: +3\r\n\r\n"), Wrong::Length),
            (format!("{ok}Content-Length: 3\r\nContent-Length: 4\r\n\r\n"), Wrong::Length),
            (format!("{ok}Content-Length: {}\r\n\r\n", 5_u64 << 30), Wrong::BodyTooLong),
            (format!("{ok}Content-Length: 1\r\n\r\nab"), Wrong::Surplus),
            (format!("{ok}Transfer-Encoding: chunked\r\n\r\nx\r\n"), Wrong::Chunk),
            (format!("{ok}Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n"), Wrong::Chunk),
        ] {
            assert_eq!(read(&text), Err(wrong), "{:?}", text.get(..60));
        }
    }

    #[test]
    fn a_request_ends_with_an_empty_line() {
        let text = request("127.0.0.1:80".parse().unwrap(), "/a", false);
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("GET /a HTTP/1.1\r\nHost: 127.0.0.1:80\r\n"), "{text}");
        assert!(text.contains("Connection: close\r\n") && text.ends_with("\r\n\r\n"), "{text}");
    }
}
