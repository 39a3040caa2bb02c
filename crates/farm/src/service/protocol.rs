//! What can be asked of a farm: one line of JSON a connection.

use serde_json::Value;

/// The longest question. Most of it is a command for a guest's shell.
pub(super) const QUESTION_MAX: usize = 64 * 1024;

/// What somebody asks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// All guests.
    Ps,
    /// What a guest's console has said.
    Logs(String),
    /// A guest's console, both ways.
    Console(String),
    /// A line for a guest's shell.
    Exec { guest: String, command: String },
    /// The files that a guest's rules look at.
    Capture(String),
    /// All guests, for a host manager.
    Manage,
    /// The farm's end.
    Down,
}

const HELP: &str = "Ask {\"ps\": true}, {\"logs\": GUEST}, {\"console\": GUEST}, \
                    {\"exec\": GUEST, \"command\": LINE}, {\"capture\": GUEST}, \
                    {\"manage\": true} or {\"down\": true}";

/// Reads a question.
pub(super) fn question(line: &str) -> Result<Question, String> {
    let value: Value = serde_json::from_str(line).map_err(|e| format!("This is no JSON: {e}"))?;
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let is_true = |key: &str| value.get(key).and_then(Value::as_bool) == Some(true);
    if is_true("ps") {
        return Ok(Question::Ps);
    }
    if is_true("down") {
        return Ok(Question::Down);
    }
    if is_true("manage") {
        return Ok(Question::Manage);
    }
    if let Some(guest) = text("logs") {
        return Ok(Question::Logs(guest));
    }
    if let Some(guest) = text("console") {
        return Ok(Question::Console(guest));
    }
    if let Some(guest) = text("capture") {
        return Ok(Question::Capture(guest));
    }
    match (text("exec"), text("command")) {
        (Some(_), Some(command)) if command.contains(['\n', '\r', '\0']) => {
            Err("A command is one line".to_owned())
        }
        (Some(guest), Some(command)) => Ok(Question::Exec { guest, command }),
        _ => Err(HELP.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions() {
        assert_eq!(question("{\"ps\": true}"), Ok(Question::Ps));
        assert_eq!(question("{\"manage\": true}"), Ok(Question::Manage));
        assert_eq!(question("{\"logs\": \"a1\"}"), Ok(Question::Logs("a1".into())));
        assert_eq!(question("{\"capture\": \"g1\"}"), Ok(Question::Capture("g1".into())));
        let exec = question("{\"exec\": \"a1\", \"command\": \"ls\"}");
        assert_eq!(exec, Ok(Question::Exec { guest: "a1".into(), command: "ls".into() }));
        for wrong in [
            "",
            "{}",
            "[]",
            "{\"ps\": 1}",
            "{\"manage\": false}",
            "{\"manage\": 1}",
            "manage",
            "{\"exec\": \"a1\"}",
            "{\"exec\": \"a1\", \"command\": \"a\\nb\"}",
        ] {
            assert!(question(wrong).is_err(), "{wrong}");
        }
    }
}
