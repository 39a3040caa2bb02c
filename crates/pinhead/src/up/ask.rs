//! Asks a running `pinhead up` through its control socket.

use super::control::{ANSWER_MAX, PREFIX, name_of};
use crate::Error;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

/// A guest has 5 s for its files; an answer that comes later never will.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the running `pinhead up` that has this guest for all of its files.
pub fn capture(guest: &str) -> Result<Vec<(String, String)>, Error> {
    let pids = running()?;
    if pids.is_empty() {
        let message = "No `pinhead up` is running: start one, or use --root";
        return Err(Error::Message(message.into()));
    }
    let mut refusal = String::new();
    for pid in pids {
        match files(pid, guest) {
            Ok(Ok(files)) => return Ok(files),
            Ok(Err(message)) => refusal = message,
            Err(error) => refusal = format!("{} does not answer: {error}", name_of(pid)),
        }
    }
    Err(Error::Message(refusal))
}

/// The processes that run guests now, as far as their sockets' names say.
pub fn running() -> Result<Vec<u32>, Error> {
    let path = std::path::Path::new("/proc/net/unix");
    let text = std::fs::read_to_string(path).map_err(|e| Error::read(path, e))?;
    let at = format!("@{PREFIX}");
    let mut pids: Vec<u32> = text
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().last()?.strip_prefix(at.as_str()))
        .filter_map(|pid| pid.parse().ok())
        .collect();
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

type Files = Vec<(String, String)>;

fn files(pid: u32, guest: &str) -> io::Result<Result<Files, String>> {
    let (_, value) = match ask(pid, &json!({ "capture": guest }))? {
        Ok(answered) => answered,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let files = value.get("files").and_then(Value::as_object).ok_or(ErrorKind::InvalidData)?;
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    Ok(Ok(files.iter().map(|(name, v)| (name.clone(), text(v))).collect()))
}

/// The guests of a `pinhead up` that are ours to manage, as long as this lives.
#[derive(Debug)]
pub struct Managed {
    /// The process that runs them.
    pub pid: u32,
    /// Their names.
    pub guests: Vec<String>,
    /// Where their sockets are: `NAME.qmp` and `NAME.port`.
    pub dir: PathBuf,
    /// The lease. Dropping it gives the guests back; it can be read when the process has ended.
    pub lease: UnixStream,
}

/// Asks a running `pinhead up` for all of its guests. The inner error is its refusal.
pub fn manage(pid: u32) -> io::Result<Result<Managed, String>> {
    let (lease, value) = match ask(pid, &json!({ "manage": true }))? {
        Ok(answered) => answered,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let guests = value.get("managed").and_then(Value::as_array).ok_or(ErrorKind::InvalidData)?;
    let guests = guests.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let dir = value.get("dir").and_then(Value::as_str).ok_or(ErrorKind::InvalidData)?;
    Ok(Ok(Managed { pid, guests, dir: dir.into(), lease }))
}

/// One question and its answer, with the connection that they came through.
fn ask(pid: u32, question: &Value) -> io::Result<Result<(UnixStream, Value), String>> {
    let name = name_of(pid);
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(&name)?)?;
    if !reactor::is_own_user(&stream) {
        // Anybody can take such a name: only our own guests are believed.
        return Ok(Err(format!("{name} belongs to another user")));
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    (&stream).write_all(format!("{question}\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new((&stream).take(ANSWER_MAX)).read_line(&mut line)?;
    let value: Value = serde_json::from_str(&line).map_err(|_| ErrorKind::InvalidData)?;
    if let Some(error) = value.get("error").and_then(Value::as_str) {
        return Ok(Err(error.into()));
    }
    Ok(Ok((stream, value)))
}
