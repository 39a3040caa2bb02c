//! The four messages that QEMU sends.

use serde_json::{Map, Value};

use crate::Error;

/// A line from QEMU.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// The first line of a connection.
    Greeting(Version),
    /// A command succeeded.
    Return {
        /// The command's id.
        id: Option<u64>,
        /// The result.
        value: Value,
    },
    /// A command failed, or QEMU could not parse a line. A line that was not parsed has no id.
    Failure {
        /// The command's id.
        id: Option<u64>,
        /// QEMU's reason.
        failure: Failure,
    },
    /// An event in the guest or in QEMU.
    Event {
        /// The event's name, such as `SHUTDOWN`.
        name: String,
        /// The event's data; null for events without any.
        data: Value,
        /// The time of the event by the host's clock.
        timestamp: Timestamp,
    },
}

/// QEMU's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The 7 of 7.2.22.
    pub major: u64,
    /// The 2 of 7.2.22.
    pub minor: u64,
    /// The 22 of 7.2.22.
    pub micro: u64,
    /// The distribution's version, such as `Debian 1:7.2+dfsg-7`.
    pub package: String,
}

/// The error of a failed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// `GenericError`, one of the few classes that a program may react to, or
    /// [`Failure::MISSHAPEN`].
    pub class: String,
    /// A sentence for the user. It may change with QEMU's version.
    pub desc: String,
}

impl Failure {
    /// The class of a malformed answer, which QEMU itself never sends. With this class the caller
    /// gets a result, and does not wait for an answer that has already arrived.
    pub const MISSHAPEN: &'static str = "Misshapen";
}

/// Wall-clock time of an event. QEMU sends -1 for both fields if its clock could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Microseconds past the second.
    pub microseconds: i64,
}

impl Message {
    /// Parses one line without its line end.
    pub fn parse(line: &[u8]) -> Result<Message, Error> {
        let text = std::str::from_utf8(line)
            .map_err(|error| Error::Utf8 { offset: error.valid_up_to() })?;
        // serde_json refuses nesting deeper than 128, so brackets cannot exhaust the stack.
        let value: Value = serde_json::from_str(text)
            .map_err(|error| Error::Json { column: error.column(), reason: error.to_string() })?;
        let Value::Object(mut object) = value else {
            return Err(Error::Shape { member: "(object)" });
        };
        let id = object.get("id").and_then(Value::as_u64);
        if let Some(value) = object.remove("return") {
            return Ok(Message::Return { id, value });
        }
        if let Some(error) = object.get("error") {
            let failure = Failure { class: string(error, "class")?, desc: string(error, "desc")? };
            return Ok(Message::Failure { id, failure });
        }
        if object.contains_key("event") {
            return event(object);
        }
        if let Some(qmp) = object.get("QMP") {
            return Ok(Message::Greeting(version(qmp)?));
        }
        Err(Error::Shape { member: "return, error, event or QMP" })
    }
}

fn event(mut object: Map<String, Value>) -> Result<Message, Error> {
    let Some(Value::String(name)) = object.remove("event") else {
        return Err(Error::Shape { member: "event" });
    };
    let stamp = object.get("timestamp").ok_or(Error::Shape { member: "timestamp" })?;
    let timestamp = Timestamp {
        seconds: integer(stamp, "seconds")?,
        microseconds: integer(stamp, "microseconds")?,
    };
    Ok(Message::Event { name, data: object.remove("data").unwrap_or(Value::Null), timestamp })
}

fn version(qmp: &Value) -> Result<Version, Error> {
    let version = qmp.get("version").ok_or(Error::Shape { member: "version" })?;
    let qemu = version.get("qemu").ok_or(Error::Shape { member: "qemu" })?;
    let number = |member| qemu.get(member).and_then(Value::as_u64).ok_or(Error::Shape { member });
    Ok(Version {
        major: number("major")?,
        minor: number("minor")?,
        micro: number("micro")?,
        package: string(version, "package")?,
    })
}

fn string(value: &Value, member: &'static str) -> Result<String, Error> {
    value.get(member).and_then(Value::as_str).map(str::to_owned).ok_or(Error::Shape { member })
}

fn integer(value: &Value, member: &'static str) -> Result<i64, Error> {
    value.get(member).and_then(Value::as_i64).ok_or(Error::Shape { member })
}
