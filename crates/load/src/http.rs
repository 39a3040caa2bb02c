//! HTTP/1.1 as a client needs it: a request's text, and where an answer ends. No I/O.
//!
//! ```text
//!   bytes ─► Answer::feed ─► More | Done      (the body is counted and thrown away)
//! ```

use std::fmt;
use std::net::SocketAddr;

/// An answer's head: more than any server of ours sends, and little enough to keep for each of
/// thousands of connections.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;
/// A line between the chunks of a body: a number, and extensions that nobody sends.
const CHUNK_LINE_BYTES_MAX: usize = 1024;
/// Lines behind the last chunk.
const TRAILER_LINES_MAX: usize = 128;
/// A body: a server of ours sends a page. One without an end must not be read forever.
pub const BODY_BYTES_MAX: u64 = 4 << 30;
/// Answers before the answer (100 Continue) that are skipped.
const INTERIM_MAX: usize = 8;

/// A request for a page. The path is taken as it is: [`crate::Plan::check`] has looked at it.
pub fn request(address: SocketAddr, path: &str, is_kept_alive: bool) -> Vec<u8> {
    let connection = if is_kept_alive { "keep-alive" } else { "close" };
    format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: pinhead-load\r\nAccept: */*\r\n\
         Connection: {connection}\r\n\r\n"
    )
    .into_bytes()
}

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It does not begin as HTTP does.
    StatusLine,
    /// A line of the head has no colon.
    HeaderLine,
    /// The head does not end.
    HeadTooLong,
    /// The length is not one number.
    Length,
    /// A chunk does not begin with its size, or does not end where that says.
    Chunk,
    /// The body is longer than is read.
    BodyTooLong,
    /// There is more than was announced.
    Surplus,
    /// The connection ended before the answer.
    Cut,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wrong::StatusLine => "The answer does not begin with HTTP/1 and a status",
            Wrong::HeaderLine => "A line of the answer's head has no colon",
            Wrong::HeadTooLong => "The answer's head is longer than 32 KiB",
            Wrong::Length => "The answer's length is not one number",
            Wrong::Chunk => "A chunk of the answer is not as long as it says",
            Wrong::BodyTooLong => "The answer's body is longer than 4 GiB",
            Wrong::Surplus => "The answer is longer than it says",
            Wrong::Cut => "The connection ended before the answer",
        })
    }
}

impl std::error::Error for Wrong {}

/// Whether the answer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is more to come.
    More,
    /// It is there.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Head,
    /// So many bytes are to come.
    Length(u64),
    /// The line with a chunk's size.
    ChunkSize,
    /// The rest of a chunk.
    Chunk(u64),
    /// The line end behind a chunk.
    ChunkEnd,
    /// Lines behind the last chunk; so many were read.
    Trailer(usize),
    /// All until the connection ends.
    UntilEnd,
    Done,
}

/// An answer on its way.
#[derive(Debug)]
pub struct Answer {
    part: Part,
    /// The head, or a line between chunks, as far as it has come.
    kept: Vec<u8>,
    status: Option<u16>,
    body_bytes: u64,
    is_kept_alive: bool,
    interim: usize,
}

impl Default for Answer {
    fn default() -> Answer {
        Answer::new()
    }
}

impl Answer {
    /// Nothing has come yet.
    pub fn new() -> Answer {
        Answer {
            part: Part::Head,
            kept: Vec::new(),
            status: None,
            body_bytes: 0,
            is_kept_alive: false,
            interim: 0,
        }
    }

    /// The status, once it is known.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// Bytes of the body that have come.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Whether the server leaves the connection open for the next request.
    pub fn is_kept_alive(&self) -> bool {
        self.is_kept_alive && self.part == Part::Done
    }

    /// Takes what has come.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<State, Wrong> {
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
        Ok(if self.part == Part::Done { State::Done } else { State::More })
    }

    /// The connection has ended.
    pub fn end(&mut self) -> Result<(), Wrong> {
        match self.part {
            Part::UntilEnd => {
                self.part = Part::Done;
                Ok(())
            }
            Part::Done => Ok(()),
            _ => Err(Wrong::Cut),
        }
    }

    /// Counts the part of `bytes` that belongs to the body; gives what is left of it.
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
        // The end may lie across two pieces: three bytes of the one before are looked at again.
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
        self.read_head(&head[..end - 4])?;
        Ok(bytes.get(end - before..).unwrap_or_default())
    }

    fn read_head(&mut self, head: &[u8]) -> Result<(), Wrong> {
        let head = String::from_utf8_lossy(head);
        let mut lines = head.split("\r\n");
        let (is_new, status) = status_line(lines.next().unwrap_or_default())?;
        if (100..200).contains(&status) {
            self.interim += 1;
            // Further ones are no way to answer.
            return if self.interim > INTERIM_MAX { Err(Wrong::StatusLine) } else { Ok(()) };
        }
        self.status = Some(status);
        self.is_kept_alive = is_new;
        let (mut length, mut is_chunked) = (None, false);
        for line in lines {
            let (name, value) = line.split_once(':').ok_or(Wrong::HeaderLine)?;
            let value = value.trim();
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            if is("content-length") {
                let is_number = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
                let number = value.parse::<u64>().ok().filter(|_| is_number);
                let number = number.ok_or(Wrong::Length)?;
                if length.is_some_and(|length| length != number) {
                    return Err(Wrong::Length);
                }
                length = Some(number);
            } else if is("transfer-encoding") {
                is_chunked = value.to_ascii_lowercase().ends_with("chunked");
            } else if is("connection") {
                let value = value.to_ascii_lowercase();
                self.is_kept_alive &= !value.contains("close");
                self.is_kept_alive |= value.contains("keep-alive");
            }
        }
        self.part = match length {
            _ if status == 204 || status == 304 => Part::Done,
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
            let line = line.strip_suffix(b"\r\n").ok_or(Wrong::Chunk)?;
            self.part = self.after_line(line)?;
        }
        Ok(&bytes[here..])
    }

    fn after_line(&self, line: &[u8]) -> Result<Part, Wrong> {
        match self.part {
            Part::ChunkSize => match chunk_size(line).ok_or(Wrong::Chunk)? {
                0 => Ok(Part::Trailer(0)),
                size => Ok(Part::Chunk(size)),
            },
            Part::Trailer(_) if line.is_empty() => Ok(Part::Done),
            Part::Trailer(lines) if lines < TRAILER_LINES_MAX => Ok(Part::Trailer(lines + 1)),
            Part::ChunkEnd if line.is_empty() => Ok(Part::ChunkSize),
            _ => Err(Wrong::Chunk),
        }
    }
}

/// Whether it is HTTP/1.1, and the status.
fn status_line(line: &str) -> Result<(bool, u16), Wrong> {
    let mut words = line.splitn(3, ' ');
    let is_new = match words.next() {
        Some("HTTP/1.1") => true,
        Some("HTTP/1.0") => false,
        _ => return Err(Wrong::StatusLine),
    };
    let status = words.next().filter(|word| word.len() == 3).and_then(|word| word.parse().ok());
    match status {
        Some(status @ 100..=599) => Ok((is_new, status)),
        _ => Err(Wrong::StatusLine),
    }
}

/// The size before a chunk, in hexadecimal; extensions are left out.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    let digits = line.split(';').next()?.trim();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| u64::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However the bytes come, the result is the same.
    fn read(text: &str) -> Result<(State, u16, u64, bool), Wrong> {
        let all = |size: usize| {
            let mut answer = Answer::new();
            let mut state = State::More;
            for piece in text.as_bytes().chunks(size) {
                state = answer.feed(piece)?;
            }
            let status = answer.status().unwrap_or(0);
            Ok((state, status, answer.body_bytes(), answer.is_kept_alive()))
        };
        let whole = all(usize::MAX >> 1);
        for size in 1..8 {
            assert_eq!(all(size), whole, "in pieces of {size}: {text:?}");
        }
        whole
    }

    #[test]
    fn an_answers_end_is_where_its_head_says() {
        let done = |status, bytes, kept| Ok((State::Done, status, bytes, kept));
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
    fn without_a_length_the_connections_end_is_the_answers() {
        let mut answer = Answer::new();
        assert_eq!(answer.feed(b"HTTP/1.0 200 OK\r\n\r\nsome"), Ok(State::More));
        assert_eq!(answer.end(), Ok(()));
        assert_eq!((answer.body_bytes(), answer.is_kept_alive()), (4, false));
        let mut answer = Answer::new();
        assert_eq!(
            answer.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsom"),
            Ok(State::More)
        );
        assert_eq!(answer.end(), Err(Wrong::Cut));
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        let ok = "HTTP/1.1 200 OK\r\n";
        for (text, wrong) in [
            ("SSH-2.0-x\r\n\r\n".to_owned(), Wrong::StatusLine),
            ("HTTP/1.1 20 OK\r\n\r\n".to_owned(), Wrong::StatusLine),
            ("HTTP/1.1 100 C\r\n\r\n".repeat(9), Wrong::StatusLine),
            (format!("{ok}nonsense\r\n\r\n"), Wrong::HeaderLine),
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
    fn a_request_is_closed_by_its_empty_line() {
        let text = request("127.0.0.1:80".parse().unwrap(), "/a", false);
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("GET /a HTTP/1.1\r\nHost: 127.0.0.1:80\r\n"), "{text}");
        assert!(text.contains("Connection: close\r\n") && text.ends_with("\r\n\r\n"), "{text}");
    }
}
