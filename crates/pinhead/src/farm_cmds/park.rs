//! `pinhead park` and `pinhead wake`: guests that nobody needs now, and that somebody needs again.

use super::{ParkArgs, find};
use crate::Error;
use farm::service;
use serde_json::{Value, json};
use std::time::Duration;
use vm::Clock;

/// Many GiB are compressed in less.
const PATIENCE: Duration = Duration::from_secs(300);

/// Parks guests, one after the other: each is parked when its memory is paged out.
pub fn park(args: &ParkArgs) -> Result<String, Error> {
    each(args, "park", "parked")
}

/// Wakes guests.
pub fn wake(args: &ParkArgs) -> Result<String, Error> {
    each(args, "wake", "awake")
}

/// Asks for each guest. All of them are found before the first is asked for.
fn each(args: &ParkArgs, question: &str, done: &str) -> Result<String, Error> {
    let found: Vec<find::At> =
        args.guests.iter().map(|guest| find::any_guest(guest)).collect::<Result<_, _>>()?;
    let mut text = String::new();
    for at in found {
        let clock = Clock::new();
        let question = json!({ question: at.guest });
        let (_, answer) = service::ask_within(&at.socket, &question, PATIENCE)?;
        let kept = match answer.get("kept").and_then(Value::as_str) {
            Some(why) => format!(", its memory stays: {}", base::plain(why, 200)),
            None => String::new(),
        };
        text.push_str(&format!("{}: {done} after {} ms{kept}\n", at.guest, clock.ms()));
    }
    Ok(text)
}
