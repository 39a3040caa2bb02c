//! Conversion of JSON lines to requests, and of responses to lines.
//!
//! Requests are parsed without serde, so that the response to an invalid request names the wrong
//! member and the right form. A request with an unknown member is invalid.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Answer, Ask, Change, Failure, Whose};
use crate::config::Share;

/// Version of the protocol.
pub const VERSION: u64 = 1;

/// Maximum length of a line, which may contain a command for a guest's shell. A manager's limit is
/// lower.
pub const LINE_MAX: usize = 64 * 1024;
/// Longest name of a guest in a request. libvirt and QEMU use the name in file names, which allow
/// no more.
pub const NAME_MAX: usize = 255;
/// Largest reservation, 4 PiB.
const MIB_MAX: u64 = 1 << 32;
/// Longest timeout of a reservation. An open request occupies its connection.
const TIMEOUT_MAX_MS: u64 = 10 * 60_000;
/// Maximum duration of a reservation. No other guest can use reserved memory.
const HOLD_MAX_MS: u64 = 60 * 60_000;

/// Values of `do`.
pub const VERBS: [&str; 20] = [
    "ps",
    "set",
    "park",
    "wake",
    "reserve",
    "unreserve",
    "inputs",
    "scan",
    "levers",
    "status",
    "yield",
    "reload",
    "interval",
    "farm",
    "logs",
    "console",
    "exec",
    "capture",
    "lend",
    "down",
];
const WHATS: [&str; 6] = ["min", "max", "shares", "pin", "release", "manage"];

/// A request, with a number that the response repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number chosen by the client.
    pub id: u64,
    /// The request itself.
    pub ask: Ask,
}

/// A line that is not a valid request. It still gets a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRequest {
    /// Number chosen by the client, if there is one.
    pub id: Option<u64>,
    /// Reason and advice.
    pub failure: Failure,
}

/// Members of a request that have not been read so far.
struct Members(Map<String, Value>);

/// Reads a line, without its line end.
pub fn decode_request(line: &[u8]) -> Result<Request, BadRequest> {
    let bad = |failure| BadRequest { id: None, failure };
    if line.len() > LINE_MAX {
        return Err(bad(Failure::new(format!("The request is longer than {LINE_MAX} bytes"))));
    }
    let value: Value = serde_json::from_slice(line).map_err(|error| {
        let column = error.column();
        let help = r#"write one object a line, such as {"v":1,"id":1,"do":"ps"}"#;
        bad(Failure::new(format!("The line is not valid JSON at column {column}")).help(help))
    })?;
    let Value::Object(object) = value else {
        return Err(bad(Failure::new("The request is not a JSON object in braces")));
    };
    let id = object.get("id").and_then(Value::as_u64);
    let ask = request(Members(object)).map_err(|failure| BadRequest { id, failure })?;
    match id {
        Some(id) => Ok(Request { id, ask }),
        None => {
            let help = "give each request a whole number, which its response repeats";
            Err(bad(Failure::new("A request has no `id`").help(help)))
        }
    }
}

fn request(mut members: Members) -> Result<Ask, Failure> {
    members.0.remove("id");
    let version = members.number("v", 0, u64::MAX)?;
    if version != VERSION {
        let message = format!("Version {version} of the protocol is not supported");
        return Err(Failure::new(message).help(format!("the version is {VERSION}")));
    }
    let verb = members.text("do")?;
    let ask = match verb.as_str() {
        "ps" => Ask::Ps,
        "levers" => Ask::Levers,
        "status" => Ask::Status,
        "reload" => Ask::Reload,
        "yield" => Ask::Yield,
        "inputs" => Ask::Inputs { guest: members.text("guest")? },
        "interval" => Ask::Interval { processes: members.whose()? },
        "scan" => Ask::Scan { guest: members.text("guest")? },
        "farm" => Ask::Farm,
        "lend" => Ask::Lend,
        "down" => Ask::Down,
        "logs" => Ask::Logs { guest: members.text("guest")? },
        "console" => Ask::Console { guest: members.text("guest")? },
        "capture" => Ask::Capture { guest: members.text("guest")? },
        "exec" => Ask::Exec { guest: members.text("guest")?, command: members.command()? },
        "park" => Ask::Park { guest: members.text("guest")? },
        "wake" => Ask::Wake { guest: members.text("guest")? },
        "set" => Ask::Set { guest: members.text("guest")?, change: change(&mut members)? },
        "unreserve" => Ask::Unreserve { reservation: members.number("reservation", 0, u64::MAX)? },
        "reserve" => Ask::Reserve {
            mib: members.number("mib", 1, MIB_MAX)?,
            timeout_ms: members.number("timeout_ms", 0, TIMEOUT_MAX_MS)?,
            hold_ms: members.number("hold_ms", 1, HOLD_MAX_MS)?,
        },
        other => return Err(unknown("request", other, &VERBS)),
    };
    match members.0.keys().next() {
        None => Ok(ask),
        Some(name) => {
            let name = shown(name);
            Err(Failure::new(format!("The request `{verb}` has no member `{name}`")))
        }
    }
}

fn change(members: &mut Members) -> Result<Change, Failure> {
    let what = members.text("what")?;
    Ok(match what.as_str() {
        "min" => Change::Min(members.share()?),
        "max" => Change::Max(members.share()?),
        "pin" => Change::Pin(members.share()?),
        // The limit is below the type's maximum, so the cast is lossless.
        "shares" => Change::Shares(members.number("value", 1, 1_000_000)? as u32),
        "release" => Change::Release,
        "manage" => Change::Manage,
        other => return Err(unknown("`what`", other, &WHATS)),
    })
}

fn unknown(kind: &str, name: &str, known: &[&str]) -> Failure {
    let near = base::nearest(name, known.iter().copied());
    let help = match near.first() {
        Some(near) => format!("is it `{near}`?"),
        None => format!("there are {}", known.join(", ")),
    };
    Failure::new(format!("There is no {kind} `{}`", shown(name))).help(help)
}

/// Returns a part of a request for use in a message, short and without control characters.
fn shown(text: &str) -> String {
    text.chars().take(40).collect::<String>().escape_debug().to_string()
}

impl Members {
    fn take(&mut self, name: &str) -> Result<Value, Failure> {
        let missing = || Failure::new(format!("The request has no `{name}`"));
        self.0.remove(name).ok_or_else(|| match name {
            "v" => missing().help(format!("the version of the protocol is {VERSION}")),
            _ => missing(),
        })
    }

    fn number(&mut self, name: &str, low: u64, high: u64) -> Result<u64, Failure> {
        let number = self.take(name)?.as_u64().filter(|number| (low..=high).contains(number));
        number.ok_or_else(|| {
            let help = format!("a whole number from {low} to {high}");
            Failure::new(format!("`{name}` is out of range")).help(help)
        })
    }

    fn text(&mut self, name: &str) -> Result<String, Failure> {
        match self.take(name)? {
            Value::String(text) if (1..=NAME_MAX).contains(&text.len()) => Ok(text),
            Value::String(_) => Err(Failure::new(format!("`{name}` is empty or too long"))),
            _ => Err(Failure::new(format!("`{name}` is not a text in quotes"))),
        }
    }

    fn command(&mut self) -> Result<String, Failure> {
        match self.take("command")? {
            Value::String(line) if line.contains(['\n', '\r', '\0']) => {
                Err(Failure::new("`command` has more than one line"))
            }
            Value::String(line) => Ok(line),
            _ => Err(Failure::new("`command` is no text")),
        }
    }

    fn whose(&mut self) -> Result<Whose, Failure> {
        match self.0.get("processes") {
            None => Ok(Whose::Everybody),
            Some(Value::Bool(false)) => {
                self.0.remove("processes");
                Ok(Whose::Nobody)
            }
            Some(_) => self.text("processes").map(Whose::Guest).map_err(|failure| {
                failure.help("the name or the UUID of a guest, or false for none")
            }),
        }
    }

    fn share(&mut self) -> Result<Share, Failure> {
        let text = self.text("value")?;
        Share::parse(&text)
            .map_err(|bad| Failure::new(format!("`{}`: {}", shown(&text), bad.kind)).help(bad.help))
    }
}

/// Returns the line of a request, with its line end.
pub fn encode_request(request: &Request) -> Vec<u8> {
    let mut object = json!(request.ask);
    (object["v"], object["id"]) = (VERSION.into(), request.id.into());
    format!("{object}\n").into_bytes()
}

/// Returns the line of a response, with its line end.
pub fn encode_answer(id: Option<u64>, answer: &Result<Answer, Failure>) -> Vec<u8> {
    let object = match answer {
        Ok(answer) => json!({ "id": id, "ok": answer }),
        Err(failure) => json!({ "id": id, "error": failure }),
    };
    format!("{object}\n").into_bytes()
}

/// Returns the line of a message between a farm and its manager, with its line end.
pub fn encode_message(message: &impl Serialize) -> Vec<u8> {
    format!("{}\n", json!(message)).into_bytes()
}

/// Reads the line of a message between a farm and its manager.
pub fn decode_message<M: DeserializeOwned>(line: &[u8]) -> Option<M> {
    serde_json::from_slice(line).ok()
}

/// A response's line. It is read without an intermediate [`Value`], because a line about a hundred
/// guests contains a thousand numbers and arrives every second.
#[derive(Deserialize)]
struct Line {
    id: Option<u64>,
    ok: Option<Answer>,
    error: Option<Failure>,
}

/// Reads a response's line. A response without a number answers a line that has no number.
pub fn decode_answer(line: &[u8]) -> Result<(Option<u64>, Result<Answer, Failure>), String> {
    let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    match (line.error, line.ok) {
        (Some(error), _) => Ok((line.id, Err(error))),
        (None, Some(ok)) => Ok((line.id, Ok(ok))),
        (None, None) => {
            Err("it has neither `ok` nor `error`, so it is of another version".to_owned())
        }
    }
}
