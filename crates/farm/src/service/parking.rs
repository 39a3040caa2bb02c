//! Clients who wait until a guest is parked, or runs.

use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use super::replies::Replies;
use crate::fleet::Fleet;

/// Clients that may wait at the same time.
const WAITING_MAX: usize = 64;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Parkings(Vec<Waiting>);

#[derive(Debug)]
struct Waiting {
    guest: usize,
    /// Parked, or else awake.
    wants_parked: bool,
    client: UnixStream,
}

impl Parkings {
    /// Parks a guest for a client. The error is why that cannot be.
    pub(super) fn park(
        &mut self,
        guest: usize,
        client: UnixStream,
        fleet: &mut Fleet,
        replies: &mut Replies,
    ) -> Result<(), String> {
        let name = fleet.members()[guest].spec().name.clone();
        fleet.park(guest).map_err(|why| format!("Guest {name} cannot be parked: {why}"))?;
        match fleet.members()[guest].is_parked() {
            true => replies.send_line(client, &parked(guest, fleet)),
            false => self.wait(guest, true, client),
        }
        Ok(())
    }

    /// Lets a guest run for a client.
    pub(super) fn wake(
        &mut self,
        guest: usize,
        client: UnixStream,
        fleet: &mut Fleet,
        replies: &mut Replies,
    ) {
        match fleet.wake(guest) {
            true => self.wait(guest, false, client),
            false => {
                let member = &fleet.members()[guest];
                let name = &member.spec().name;
                let answer = match member.state() {
                    state if state.is_up() => json!({ "awake": name }),
                    state => json!({ "error": format!("Guest {name} is {}", state.word()) }),
                };
                replies.send_line(client, &answer);
            }
        }
    }

    fn wait(&mut self, guest: usize, wants_parked: bool, client: UnixStream) {
        // Of too many, the one that has waited longest is hung up on.
        if self.0.len() >= WAITING_MAX {
            self.0.remove(0);
        }
        self.0.push(Waiting { guest, wants_parked, client });
    }

    /// A guest is parked, and its memory is paged out.
    pub(super) fn is_parked(&mut self, guest: usize, fleet: &Fleet, replies: &mut Replies) {
        self.answer(guest, true, fleet, replies);
    }

    /// A guest was parked, and runs: also one whose client has come too late.
    pub(super) fn runs(&mut self, guest: usize, fleet: &Fleet, replies: &mut Replies) {
        self.answer(guest, false, fleet, replies);
    }

    /// A guest has ended.
    pub(super) fn has_ended(&mut self, guest: usize, fleet: &Fleet, replies: &mut Replies) {
        let name = &fleet.members()[guest].spec().name;
        for waiting in self.0.extract_if(.., |waiting| waiting.guest == guest) {
            let why = format!("Guest {name} has ended");
            replies.send_line(waiting.client, &json!({ "error": why }));
        }
    }

    fn answer(&mut self, guest: usize, is_parked: bool, fleet: &Fleet, replies: &mut Replies) {
        let name = &fleet.members()[guest].spec().name;
        for waiting in self.0.extract_if(.., |waiting| waiting.guest == guest) {
            let answer = match (waiting.wants_parked, is_parked) {
                (true, true) => parked(guest, fleet),
                (false, false) => json!({ "awake": name }),
                (true, false) => {
                    json!({ "error": not_parked(name, fleet.members()[guest].kept_because()) })
                }
                (false, true) => json!({ "error": format!("Guest {name} was parked again") }),
            };
            replies.send_line(waiting.client, &answer);
        }
    }
}

/// A guest that was to be parked runs again; and why, if it could not be saved.
fn not_parked(name: &str, why: Option<&str>) -> String {
    match why {
        Some(why) => format!("Guest {name} cannot be parked: {why}"),
        None => format!("Guest {name} was woken meanwhile"),
    }
}

/// A guest is parked; and why its memory stays where it is, if that is so.
fn parked(guest: usize, fleet: &Fleet) -> Value {
    let member = &fleet.members()[guest];
    json!({ "parked": member.spec().name, "kept": member.kept_because() })
}
