//! The four messages that QEMU sends.

use serde_json::{Map, Value};

use crate::Error;

/// A line from QEMU.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// The first line of a connection.
    Greeting,
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
    },
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
        if object.contains_key("QMP") {
            return Ok(Message::Greeting);
        }
        Err(Error::Shape { member: "return, error, event or QMP" })
    }
}

fn event(mut object: Map<String, Value>) -> Result<Message, Error> {
    let Some(Value::String(name)) = object.remove("event") else {
        return Err(Error::Shape { member: "event" });
    };
    Ok(Message::Event { name, data: object.remove("data").unwrap_or(Value::Null) })
}

fn string(value: &Value, member: &'static str) -> Result<String, Error> {
    value.get(member).and_then(Value::as_str).map(str::to_owned).ok_or(Error::Shape { member })
}
