//! Blocking HTTP client for one request, with bounds on time and size.

use crate::clock::Deadline;
use crate::http::Response;
use crate::{Error, Url};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Maximum length of a server's error message that is reported.
const WORDS_MAX: usize = 300;

pub(crate) struct Call<'a> {
    pub(crate) url: &'a Url,
    /// Path that is appended to the URL's own path.
    pub(crate) path: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: &'a [u8],
    /// Timeout of the whole request.
    pub(crate) patience: Duration,
    /// Maximum size of the response.
    pub(crate) answer_max: usize,
}

/// Sends a POST request. A status other than success is an error.
pub(crate) fn post(call: &Call<'_>) -> Result<Vec<u8>, Error> {
    let deadline = Deadline::within(call.patience);
    let url = || format!("{}{}", call.url, call.path);
    let wrap = |step| {
        let patience = call.patience;
        move |source: io::Error| match source.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Error::Slow {
                url: url(),
                waited_ms: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
            },
            _ => Error::Io { url: url(), step, source },
        }
    };
    let mut stream = connect(call.url, deadline).map_err(wrap("connect to"))?;
    send(&mut stream, call, deadline).map_err(wrap("send a request to"))?;
    let heard = receive(&mut stream, call, deadline).map_err(wrap("read the response of"))?;
    if heard.len() > call.answer_max {
        let reason = format!("it has more than {} bytes", call.answer_max);
        return Err(Error::Response { url: url(), reason });
    }
    let response =
        Response::parse(&heard).map_err(|reason| Error::Response { url: url(), reason })?;
    if !(200..300).contains(&response.status) {
        let words = String::from_utf8_lossy(&response.body);
        let words = words.trim().chars().take(WORDS_MAX).collect();
        return Err(Error::Status { url: url(), status: response.status, words });
    }
    Ok(response.body)
}

fn left(deadline: Deadline) -> io::Result<Duration> {
    deadline.left().ok_or_else(|| io::ErrorKind::TimedOut.into())
}

fn connect(url: &Url, deadline: Deadline) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no IP address");
    for address in (url.host.as_str(), url.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left(deadline)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn send(stream: &mut TcpStream, call: &Call<'_>, deadline: Deadline) -> io::Result<()> {
    let Call { url, path, headers, body, .. } = call;
    let mut head = format!(
        "POST {}{path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: pinhead/{}\r\n\
         Content-Length: {}\r\nConnection: close\r\n",
        url.path,
        url.authority(),
        env!("CARGO_PKG_VERSION"),
        body.len()
    );
    for (name, value) in *headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    for mut rest in [head.as_bytes(), body] {
        while !rest.is_empty() {
            stream.set_write_timeout(Some(left(deadline)?))?;
            match stream.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Reads until the connection ends, or until slightly more than the maximum size has arrived.
fn receive(stream: &mut TcpStream, call: &Call<'_>, deadline: Deadline) -> io::Result<Vec<u8>> {
    let mut heard = Vec::new();
    let mut buffer = [0; 64 * 1024];
    while heard.len() <= call.answer_max {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => heard.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(heard)
}
