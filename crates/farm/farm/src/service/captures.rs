//! Clients that wait for the files of a guest.

use manager::control::{self, Answer, ClientId, Failure, Return, Server};

use crate::fleet::{Captured, Fleet, State};

/// Maximum number of waiting requests.
const WAITING_MAX: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Captures {
    waiting: Vec<Waiting>,
    /// Clients that wait for files of guests on disk. The requests are sent once the guests are
    /// back.
    later: Vec<(usize, Return)>,
}

#[derive(Debug)]
struct Waiting {
    to: Return,
    guest: usize,
    /// Number of the request to the daemon.
    number: u32,
}

impl Captures {
    /// Requests the files from a guest's daemon. The client gets an answer once the files have
    /// arrived.
    pub(super) fn begin(
        &mut self,
        guest: usize,
        to: Return,
        fleet: &mut Fleet,
    ) -> Result<(), Failure> {
        if self.waiting.len() + self.later.len() >= WAITING_MAX {
            return Err(Failure::new("Too many requests wait for guests: try again later"));
        }
        let member = &fleet.members()[guest];
        if member.is_away() {
            self.later.push((guest, to));
            return Ok(());
        }
        let name = member.spec().name.clone();
        if member.state() == &State::Managed {
            let text =
                format!("Guest {name} is managed by a host manager, which uses the guest's port");
            return Err(Failure::new(text));
        }
        let number = fleet.capture(guest);
        let number = number.ok_or_else(|| Failure::new(format!("Guest {name} is not up")))?;
        self.waiting.push(Waiting { to, guest, number });
        Ok(())
    }

    /// Sends the delayed requests to a guest that is back from disk.
    pub(super) fn runs(&mut self, guest: usize, fleet: &mut Fleet, control: &mut Server) {
        let clients: Vec<_> = self.later.extract_if(.., |(of, _)| *of == guest).collect();
        for (guest, to) in clients {
            if let Err(failure) = self.begin(guest, to, fleet) {
                control.answer(to.client, to.id, &Err(failure), fleet.now_ms());
            }
        }
    }

    pub(super) fn has_left(&mut self, client: ClientId) {
        self.waiting.retain(|waiting| waiting.to.client != client);
        self.later.retain(|(_, to)| to.client != client);
    }

    /// Answers all waiting clients of a guest after its daemon has ended, because no more files
    /// will come. The guest's next daemon restarts the sequence numbers.
    pub(super) fn has_ended(&mut self, guest: usize, fleet: &Fleet, control: &mut Server) {
        let name = &fleet.members()[guest].spec().name;
        let waiting = self.waiting.extract_if(.., |waiting| waiting.guest == guest);
        let later = self.later.extract_if(.., |(of, _)| *of == guest);
        for to in waiting.map(|waiting| waiting.to).chain(later.map(|(_, to)| to)) {
            let failure = Failure::new(format!("The daemon of guest {name} has ended"));
            control.answer(to.client, to.id, &Err(failure), fleet.now_ms());
        }
    }

    /// Answers the client that waits for these files.
    pub(super) fn captured(
        &mut self,
        guest: usize,
        captured: &Captured,
        fleet: &Fleet,
        control: &mut Server,
    ) {
        let asked = |w: &Waiting| w.guest == guest && w.number == captured.number;
        let Some(place) = self.waiting.iter().position(asked) else { return };
        let Return { client, id } = self.waiting.swap_remove(place).to;
        let files = control::Captured::new(captured, fleet.members()[guest].status());
        control.answer(client, id, &Ok(Answer::Capture(files)), fleet.now_ms());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::tests::config;
    use manager::control::{Ask, Bounds, Request, encode_request};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn only_clients_of_ended_guest_get_a_failure() {
        let scratch = vm::Scratch::new("captures").unwrap();
        let path = scratch.join("control");
        let mut control = Server::open(&path, None, Bounds::FARM).unwrap();
        let mut ask = || {
            let mut client = UnixStream::connect(&path).unwrap();
            let ask = Ask::Capture { guest: "g".into() };
            client.write_all(&encode_request(&Request { id: 1, ask })).unwrap();
            let mut asked = Vec::new();
            control.turn(&[], 0, &mut asked);
            client.set_nonblocking(true).unwrap();
            (client, Return { client: asked[0].client, id: 1 })
        };
        let [(mut its, first), (mut later, second), (mut other, third)] =
            std::array::from_fn(|_| ask());
        let waiting = |to, guest| Waiting { to, guest, number: 1 };
        let waiting = vec![waiting(first, 0), waiting(third, 1)];
        let mut captures = Captures { waiting, later: vec![(0, second)] };
        let fleet = Fleet::of(vec![config("one"), config("two")], 1);
        captures.has_ended(0, &fleet, &mut control);
        for client in [&mut its, &mut later] {
            let mut answer = [0; 256];
            let count = client.read(&mut answer).unwrap();
            assert!(String::from_utf8_lossy(&answer[..count]).contains("one has ended"));
        }
        assert!(other.read(&mut [0; 1]).is_err(), "it still waits");
        captures.has_left(third.client);
        assert!(captures.waiting.is_empty());
    }
}
