//! Clients that wait until a guest is parked, or runs.

use manager::control::{Answer, ClientId, Failure, Parked, Return, Server};

use crate::fleet::{Fleet, Refusal};

/// Maximum number of waiting clients, so that other clients can still connect.
const WAITING_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Parkings(Vec<Waiting>);

#[derive(Debug)]
struct Waiting {
    guest: usize,
    /// True if the client waits until the guest is parked, false if it waits until the guest runs.
    wants_parked: bool,
    to: Return,
}

impl Parkings {
    /// Parks a guest for a client. `None` means that the answer is sent later. The error is the
    /// reason why the guest cannot be parked.
    pub(super) fn park(
        &mut self,
        guest: usize,
        to: Return,
        fleet: &mut Fleet,
    ) -> Result<Option<Answer>, Failure> {
        self.has_room()?;
        let begun = fleet.park(guest);
        let name = &fleet.members()[guest].spec().name;
        begun.map_err(|why| refused(name, &why))?;
        Ok(match fleet.members()[guest].is_parked() {
            true => Some(parked(guest, fleet)),
            false => self.wait(guest, true, to),
        })
    }

    pub(super) fn wake(
        &mut self,
        guest: usize,
        to: Return,
        fleet: &mut Fleet,
    ) -> Result<Option<Answer>, Failure> {
        self.has_room()?;
        if fleet.wake(guest) {
            return Ok(self.wait(guest, false, to));
        }
        let member = &fleet.members()[guest];
        let name = &member.spec().name;
        match member.state() {
            state if state.is_up() => Ok(Some(awake(name))),
            state => Err(Failure::new(format!("Guest {name} is {}", state.word()))),
        }
    }

    fn has_room(&self) -> Result<(), Failure> {
        match self.0.len() {
            0..WAITING_MAX => Ok(()),
            _ => Err(Failure::new(format!(
                "{WAITING_MAX} clients wait for guests, which is the maximum: try again later"
            ))),
        }
    }

    fn wait(&mut self, guest: usize, wants_parked: bool, to: Return) -> Option<Answer> {
        self.0.push(Waiting { guest, wants_parked, to });
        None
    }

    pub(super) fn has_left(&mut self, client: ClientId) {
        self.0.retain(|waiting| waiting.to.client != client);
    }

    /// Answers the clients of a guest that is parked and paged out.
    pub(super) fn is_parked(&mut self, guest: usize, fleet: &Fleet, control: &mut Server) {
        self.answer(guest, true, fleet, control);
    }

    /// Answers the clients of a guest that runs again, including a client that requested parking
    /// too late.
    pub(super) fn runs(&mut self, guest: usize, fleet: &Fleet, control: &mut Server) {
        self.answer(guest, false, fleet, control);
    }

    pub(super) fn has_ended(&mut self, guest: usize, fleet: &Fleet, control: &mut Server) {
        let name = &fleet.members()[guest].spec().name;
        for waiting in self.0.extract_if(.., |waiting| waiting.guest == guest) {
            let failure = Failure::new(format!("Guest {name} has ended"));
            let Return { client, id } = waiting.to;
            control.answer(client, id, &Err(failure), fleet.now_ms());
        }
    }

    fn answer(&mut self, guest: usize, is_parked: bool, fleet: &Fleet, control: &mut Server) {
        let member = &fleet.members()[guest];
        let name = &member.spec().name;
        for waiting in self.0.extract_if(.., |waiting| waiting.guest == guest) {
            let answer = match (waiting.wants_parked, is_parked) {
                (true, true) => Ok(parked(guest, fleet)),
                (false, false) => Ok(awake(name)),
                (true, false) => Err(not_parked(name, member.kept_because().as_deref())),
                (false, true) => Err(Failure::new(format!("Guest {name} was parked again"))),
            };
            let Return { client, id } = waiting.to;
            control.answer(client, id, &answer, fleet.now_ms());
        }
    }
}

pub(super) fn refused(name: &str, why: &Refusal) -> Failure {
    Failure::new(format!("Guest {name} cannot be parked: {}", base::chain(why)))
}

/// Returns the failure for a guest that was not parked, with the reason if it could not be saved.
fn not_parked(name: &str, why: Option<&str>) -> Failure {
    Failure::new(match why {
        Some(why) => format!("Guest {name} cannot be parked: {why}"),
        None => format!("Guest {name} was woken in the meantime"),
    })
}

/// Returns the answer for a parked guest, with the reason if its memory stays resident.
fn parked(guest: usize, fleet: &Fleet) -> Answer {
    let member = &fleet.members()[guest];
    Answer::Park(Parked { guest: member.spec().name.clone(), kept: member.kept_because() })
}

fn awake(name: &str) -> Answer {
    Answer::Park(Parked { guest: name.to_owned(), kept: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_clients_leave_places_to_others() {
        let mut parkings = Parkings::default();
        let to = |client: u64| Return { client: ClientId(client), id: 1 };
        for client in 0..64 {
            assert_eq!(parkings.has_room(), Ok(()));
            parkings.wait(0, true, to(client));
        }
        let refused = parkings.has_room().unwrap_err();
        assert_eq!(
            refused.message,
            "64 clients wait for guests, which is the maximum: try again later"
        );
        parkings.has_left(ClientId(7));
        assert_eq!(parkings.has_room(), Ok(()));
    }
}
