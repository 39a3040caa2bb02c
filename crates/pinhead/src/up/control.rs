//! A way to ask a running `pinhead up`: a socket without a file, so that nothing is
//! left behind, whatever ends first.
//!
//! One request a connection: a line of JSON, `{"capture": "g1"}`, is answered with a
//! line, `{"files": {"proc/stat": "...", ...}}` or `{"error": "..."}`. Only the user
//! who started the guests is answered, and root.
//!
//! `{"manage": true}` is answered with `{"managed": ["g1", ...], "dir": "..."}`, and the
//! connection is a lease: as long as it stays open the client has the guests' ports and
//! balloons, and however it ends they are ours again.

pub use super::ask::{Managed, capture, manage, running};
use farm::fleet::{Captured, Fleet, State};
use reactor::{Event, PollSet, is_passing};
use rustix::event::PollFlags;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// The name under which an answer has the size of the pool, whichever kind it is.
pub const POOL: &str = "proc/sys/vm/cmm_pages";
/// The beginning of the sockets' names; the process id follows.
pub(super) const PREFIX: &str = "pinhead/up/";
/// The longest request.
const REQUEST_MAX: u64 = 4096;
/// The longest answer: all files of a guest, escaped.
pub(super) const ANSWER_MAX: u64 = 4 << 20;
/// Questions that may wait for their guest at once.
const WAITING_MAX: usize = 16;

/// The descriptors in a poll set.
const LISTENER: u64 = 0;
const MANAGER: u64 = 1;

/// The listening end.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    waiting: Vec<Waiting>,
    /// The host manager that has the guests; it says nothing more.
    manager: Option<UnixStream>,
}

/// What somebody asks.
#[derive(Debug, PartialEq, Eq)]
enum Question {
    /// The files of a guest.
    Capture(String),
    /// All guests.
    Manage,
}

/// A question whose guest has not sent all its files yet.
#[derive(Debug)]
struct Waiting {
    stream: UnixStream,
    guest: usize,
    missing: Vec<u32>,
    files: serde_json::Map<String, Value>,
}

pub(super) fn name_of(pid: u32) -> String {
    format!("{PREFIX}{pid}")
}

impl Control {
    /// Listens under this process's own name.
    pub fn open() -> std::io::Result<Control> {
        let address = SocketAddr::from_abstract_name(name_of(std::process::id()))?;
        let listener = UnixListener::bind_addr(&address)?;
        listener.set_nonblocking(true)?;
        Ok(Control { listener, waiting: Vec::new(), manager: None })
    }

    /// To wait for questions on, and for the end of the manager where there is one.
    pub fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        set.add(LISTENER, self.listener.as_fd(), PollFlags::IN);
        if let Some(manager) = &self.manager {
            set.add(MANAGER, manager.as_fd(), PollFlags::IN);
        }
    }

    /// Takes what has come, by which of [`Control::fds`] are ready.
    pub fn turn(&mut self, ready: &[Event], fleet: &mut Fleet) {
        let is_ready = |key| !Event::flags_of(ready, key).is_empty();
        // First who ends, so that the next one may begin.
        if is_ready(MANAGER) && self.manager_has_ended() {
            self.manager = None;
            fleet.take_back();
        }
        if is_ready(LISTENER) {
            self.accept(fleet);
        }
    }

    fn manager_has_ended(&self) -> bool {
        let Some(mut stream) = self.manager.as_ref() else { return false };
        match stream.read(&mut [0; REQUEST_MAX as usize]) {
            Ok(count) => count == 0,
            Err(error) => !is_passing(&error),
        }
    }

    /// Takes a question. The client has to ask at once: nobody else waits for it.
    fn accept(&mut self, fleet: &mut Fleet) {
        let Ok((stream, _)) = self.listener.accept() else { return };
        if !reactor::is_own_user(&stream) || self.waiting.len() >= WAITING_MAX {
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
        let refusal = match question(&line) {
            Ok(Question::Capture(guest)) => match begin(fleet, &guest) {
                Ok((guest, missing)) => {
                    let files = serde_json::Map::new();
                    self.waiting.push(Waiting { stream, guest, missing, files });
                    return;
                }
                Err(message) => message,
            },
            Ok(Question::Manage) if self.manager.is_some() => {
                "Another host manager has these guests".into()
            }
            Ok(Question::Manage) => match self.let_go(fleet, &stream) {
                Ok(()) => {
                    self.manager = Some(stream);
                    return;
                }
                Err(message) => message,
            },
            Err(message) => message,
        };
        answer(&stream, &json!({ "error": refusal }));
    }

    /// Leaves the guests to the holder of the stream.
    fn let_go(&self, fleet: &mut Fleet, stream: &UnixStream) -> Result<(), String> {
        let specs = || fleet.members().iter().map(|member| member.spec());
        let Some(dir) = specs().find_map(|spec| spec.run_dir.clone()) else {
            return Err("These guests have no sockets that a host manager could use".into());
        };
        let names: Vec<String> = specs().map(|spec| spec.name.clone()).collect();
        stream.set_nonblocking(true).map_err(|e| format!("The connection fails: {e}"))?;
        fleet.yield_to_other_manager();
        answer(stream, &json!({ "managed": names, "dir": dir }));
        Ok(())
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

fn question(line: &str) -> Result<Question, String> {
    let value: Value = serde_json::from_str(line).map_err(|e| format!("This is no JSON: {e}"))?;
    if value.get("manage").and_then(Value::as_bool) == Some(true) {
        return Ok(Question::Manage);
    }
    let guest = value.get("capture").and_then(Value::as_str);
    let guest = guest.map(|guest| Question::Capture(guest.to_owned()));
    guest.ok_or_else(|| "Ask {\"capture\": \"GUEST\"} or {\"manage\": true}".into())
}

fn begin(fleet: &mut Fleet, name: &str) -> Result<(usize, Vec<u32>), String> {
    let place = fleet.members().iter().position(|m| m.spec().name == name);
    let guest = place.ok_or_else(|| {
        let names: Vec<&str> = fleet.members().iter().map(|m| m.spec().name.as_str()).collect();
        format!("There is no guest {name}; there are {}", names.join(", "))
    })?;
    if fleet.members()[guest].state() == &State::Managed {
        return Err(format!("Guest {name} is managed by a host manager, which has its port"));
    }
    let missing: Option<Vec<u32>> =
        wire::File::ALL.into_iter().map(|file| fleet.capture(guest, file)).collect();
    missing.map(|m| (guest, m)).ok_or_else(|| format!("Guest {name} is not up"))
}

fn answer(mut stream: &UnixStream, value: &Value) {
    // The client may have gone away.
    let _ = stream.write_all(format!("{value}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions() {
        assert_eq!(question("{\"capture\": \"g1\"}"), Ok(Question::Capture("g1".into())));
        assert_eq!(question("{\"manage\": true}"), Ok(Question::Manage));
        for wrong in ["{\"manage\": false}", "{\"manage\": 1}", "{}", "[]", "", "manage"] {
            assert!(question(wrong).is_err(), "{wrong}");
        }
    }
}
