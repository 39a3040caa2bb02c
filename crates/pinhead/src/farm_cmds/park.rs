//! `pinhead park` and `pinhead wake`: guests that nobody needs now, and that somebody needs again.

use super::{ParkArgs, find};
use crate::Error;
use farm::service;
use serde_json::json;
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
        service::ask_within(&at.socket, &json!({ question: at.guest }), PATIENCE)?;
        text.push_str(&format!("{}: {done} after {} ms\n", at.guest, clock.ms()));
    }
    Ok(text)
}
