//! A way to ask a running `pinhead up`: a socket without a file, so that nothing is
//! left behind, whatever ends first.
//!
//! One request a connection: a line of JSON, `{"capture": "g1"}`, is answered with a
//! line, `{"files": {"proc/stat": "...", ...}}` or `{"error": "..."}`. Only the user
//! who started the guests is answered, and root.

use crate::Error;
use farm::fleet::{Captured, Fleet};
use rustix::net::sockopt::socket_peercred;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// The name under which an answer has the size of the pool, whichever kind it is.
pub const POOL: &str = "proc/sys/vm/cmm_pages";
/// The beginning of the sockets' names; the process id follows.
const PREFIX: &str = "pinhead/up/";
/// The longest request.
const REQUEST_MAX: u64 = 4096;
/// The longest answer: all files of a guest, escaped.
const ANSWER_MAX: u64 = 4 << 20;
/// Questions that may wait for their guest at once.
const WAITING_MAX: usize = 16;

/// The listening end.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    waiting: Vec<Waiting>,
}

/// A question whose guest has not sent all its files yet.
#[derive(Debug)]
struct Waiting {
    stream: UnixStream,
    guest: usize,
    missing: Vec<u32>,
    files: serde_json::Map<String, Value>,
}

fn name_of(pid: u32) -> String {
    format!("{PREFIX}{pid}")
}

impl Control {
    /// Listens under this process's own name.
    pub fn open() -> std::io::Result<Control> {
        let address = SocketAddr::from_abstract_name(name_of(std::process::id()))?;
        let listener = UnixListener::bind_addr(&address)?;
        listener.set_nonblocking(true)?;
        Ok(Control { listener, waiting: Vec::new() })
    }

    /// To wait for questions on.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Takes a question. Whoever asks has to do so at once: nobody else waits for it.
    pub fn accept(&mut self, fleet: &mut Fleet) {
        let Ok((stream, _)) = self.listener.accept() else { return };
        if !is_ours(&stream) || self.waiting.len() >= WAITING_MAX {
            return;
        }
        let patience = Some(Duration::from_millis(200));
        if stream.set_read_timeout(patience).and(stream.set_write_timeout(patience)).is_err() {
            return;
        }
        let mut line = String::new();
        if BufReader::new((&stream).take(REQUEST_MAX)).read_line(&mut line).is_err() {
            return;
        }
        match question(&line).and_then(|guest| begin(fleet, &guest)) {
            Ok((guest, missing)) => {
                let files = serde_json::Map::new();
                self.waiting.push(Waiting { stream, guest, missing, files });
            }
            Err(message) => answer(&stream, &json!({ "error": message })),
        }
    }

    /// Takes a file that a guest has sent, or has failed to send.
    pub fn captured(&mut self, fleet: &Fleet, guest: usize, captured: Captured) {
        let asked = |w: &Waiting| w.guest == guest && w.missing.contains(&captured.sequence);
        let Some(place) = self.waiting.iter().position(asked) else { return };
        let waiting = &mut self.waiting[place];
        waiting.missing.retain(|sequence| *sequence != captured.sequence);
        let name = captured.file.path().unwrap_or("rules");
        if let Some(bytes) = captured.bytes {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            waiting.files.insert(name.into(), Value::String(text));
        }
        if waiting.missing.is_empty() {
            let mut waiting = self.waiting.swap_remove(place);
            let status = fleet.members().get(guest).and_then(|member| member.status());
            let pool = format!("{}\n", status.map_or(0, |s| s.pool_pages));
            waiting.files.insert(POOL.into(), Value::String(pool));
            answer(&waiting.stream, &json!({ "files": waiting.files }));
        }
    }
}

fn is_ours(stream: &UnixStream) -> bool {
    socket_peercred(stream)
        .is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}

fn question(line: &str) -> Result<String, String> {
    let value: Value = serde_json::from_str(line).map_err(|e| format!("This is no JSON: {e}"))?;
    let guest = value.get("capture").and_then(Value::as_str);
    guest.map(str::to_owned).ok_or_else(|| "Ask {\"capture\": \"GUEST\"}".into())
}

fn begin(fleet: &mut Fleet, name: &str) -> Result<(usize, Vec<u32>), String> {
    let place = fleet.members().iter().position(|m| m.spec().name == name);
    let guest = place.ok_or_else(|| {
        let names: Vec<&str> = fleet.members().iter().map(|m| m.spec().name.as_str()).collect();
        format!("There is no guest {name}; there are {}", names.join(", "))
    })?;
    let missing: Option<Vec<u32>> =
        wire::File::ALL.into_iter().map(|file| fleet.capture(guest, file)).collect();
    missing.map(|m| (guest, m)).ok_or_else(|| format!("Guest {name} is not up"))
}

fn answer(mut stream: &UnixStream, value: &Value) {
    // Whoever asked may have gone away.
    let _ = stream.write_all(format!("{value}\n").as_bytes());
}

/// Asks the running `pinhead up` that has this guest for all of its files.
pub fn capture(guest: &str) -> Result<Vec<(String, String)>, Error> {
    let names = running()?;
    if names.is_empty() {
        let message = "No `pinhead up` is running: start one, or use --root";
        return Err(Error::Message(message.into()));
    }
    let mut refusal = String::new();
    for name in names {
        match ask(&name, guest) {
            Ok(Ok(files)) => return Ok(files),
            Ok(Err(message)) => refusal = message,
            Err(error) => refusal = format!("{name} does not answer: {error}"),
        }
    }
    Err(Error::Message(refusal))
}

/// The names of the sockets that are there now.
fn running() -> Result<Vec<String>, Error> {
    let path = std::path::Path::new("/proc/net/unix");
    let text = std::fs::read_to_string(path).map_err(|e| Error::read(path, e))?;
    let at = format!("@{PREFIX}");
    let mut names: Vec<String> = text
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().last()?.strip_prefix(at.as_str()))
        .map(|pid| format!("{PREFIX}{pid}"))
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}

type Files = Vec<(String, String)>;

fn ask(name: &str, guest: &str) -> std::io::Result<Result<Files, String>> {
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    if !is_ours(&stream) {
        // Anybody can take such a name: only our own guests are believed.
        return Ok(Err(format!("{name} belongs to another user")));
    }
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut to = &stream;
    to.write_all(format!("{}\n", json!({ "capture": guest })).as_bytes())?;
    let mut line = String::new();
    BufReader::new((&stream).take(ANSWER_MAX)).read_line(&mut line)?;
    let value: Value = serde_json::from_str(&line).map_err(|_| ErrorKind::InvalidData)?;
    if let Some(error) = value.get("error").and_then(Value::as_str) {
        return Ok(Err(error.into()));
    }
    let files = value.get("files").and_then(Value::as_object).ok_or(ErrorKind::InvalidData)?;
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    Ok(Ok(files.iter().map(|(name, v)| (name.clone(), text(v))).collect()))
}
