//! Clients that wait for all files of a guest.

use std::os::unix::net::UnixStream;

use serde_json::{Map, Value, json};

use super::replies::Replies;
use crate::fleet::{Captured, Fleet, State};

/// The name under which an answer has the size of the pool, whichever kind it is.
pub const POOL: &str = "proc/sys/vm/cmm_pages";
/// Questions that may wait for their guest at once.
const WAITING_MAX: usize = 16;

/// All clients that wait.
#[derive(Debug, Default)]
pub(super) struct Captures {
    waiting: Vec<Waiting>,
    /// Those whose guest is on disk: it is asked when it is back.
    later: Vec<(usize, UnixStream)>,
}

#[derive(Debug)]
struct Waiting {
    client: UnixStream,
    guest: usize,
    missing: Vec<u32>,
    files: Map<String, Value>,
}

impl Captures {
    /// Asks a guest's daemon for its files; the client is answered when all are there.
    pub(super) fn begin(
        &mut self,
        guest: usize,
        client: UnixStream,
        fleet: &mut Fleet,
    ) -> Result<(), String> {
        if self.waiting.len() + self.later.len() >= WAITING_MAX {
            return Err("Too many questions wait for their guests".to_owned());
        }
        let member = &fleet.members()[guest];
        if member.is_away() {
            self.later.push((guest, client));
            return Ok(());
        }
        let name = member.spec().name.clone();
        if member.state() == &State::Managed {
            return Err(format!("Guest {name} is managed by a host manager, which has its port"));
        }
        let missing: Option<Vec<u32>> =
            wire::File::ALL.iter().copied().map(|file| fleet.capture(guest, file)).collect();
        let missing = missing.ok_or_else(|| format!("Guest {name} is not up"))?;
        self.waiting.push(Waiting { client, guest, missing, files: Map::new() });
        Ok(())
    }

    /// A guest is back from its disk.
    pub(super) fn runs(&mut self, guest: usize, fleet: &mut Fleet, replies: &mut Replies) {
        let clients: Vec<_> = self.later.extract_if(.., |(of, _)| *of == guest).collect();
        for (guest, client) in clients {
            let Ok(again) = client.try_clone() else { continue };
            if let Err(error) = self.begin(guest, client, fleet) {
                replies.send_line(again, &json!({ "error": error }));
            }
        }
    }

    /// A guest has no daemon any more, so nothing comes of what was asked; its clients see the end
    /// of their connection. The next daemon's answers are numbered from the beginning.
    pub(super) fn has_ended(&mut self, guest: usize) {
        self.waiting.retain(|waiting| waiting.guest != guest);
        self.later.retain(|(of, _)| *of != guest);
    }

    /// Takes a file that a guest has sent, or has failed to send.
    pub(super) fn captured(
        &mut self,
        guest: usize,
        captured: &Captured,
        fleet: &Fleet,
        replies: &mut Replies,
    ) {
        let asked = |w: &Waiting| w.guest == guest && w.missing.contains(&captured.sequence);
        let Some(place) = self.waiting.iter().position(asked) else { return };
        let waiting = &mut self.waiting[place];
        waiting.missing.retain(|sequence| *sequence != captured.sequence);
        if let Some(bytes) = &captured.bytes {
            let name = captured.file.path().unwrap_or("rules");
            waiting.files.insert(name.into(), String::from_utf8_lossy(bytes).into());
        }
        if waiting.missing.is_empty() {
            let mut waiting = self.waiting.swap_remove(place);
            let pool_pages = fleet.members()[guest].status().map_or(0, |s| s.pool_pages);
            waiting.files.insert(POOL.into(), format!("{pool_pages}\n").into());
            replies.send_line(waiting.client, &json!({ "files": waiting.files }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_clients_of_a_guest_that_ends_see_their_end_and_no_others_do() {
        let (first, mut its_client) = UnixStream::pair().unwrap();
        let (second, other_client) = UnixStream::pair().unwrap();
        let waiting =
            |client, guest| Waiting { client, guest, missing: vec![1], files: Map::new() };
        let waiting = vec![waiting(first, 0), waiting(second, 1)];
        let mut captures = Captures { waiting, later: Vec::new() };
        captures.has_ended(0);
        assert_eq!(its_client.read(&mut [0; 1]).unwrap(), 0);
        other_client.set_nonblocking(true).unwrap();
        assert!((&other_client).read(&mut [0; 1]).is_err(), "it still waits");
    }
}
