//! A guest's place in a fleet, and what others than the fleet do with its console.

use std::io::Write;

use super::{Fleet, Floor, Member, State};
use crate::GuestSpec;
use crate::tiers::Tier;

/// A guest's place in a fleet.
#[derive(Clone, Debug)]
pub struct Seat {
    /// How it is started.
    pub spec: GuestSpec,
    /// What it keeps whatever it asks for.
    pub floor: Floor,
    /// Whether a daemon will say that it is up.
    pub daemon: Daemon,
}

/// Whether a guest has the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// The guest is up when its daemon has said hello.
    Expected,
    /// The guest is up when its console says so.
    Missing,
    /// The guest is not one of ours, and says nothing that we know: it is taken for up when its
    /// QEMU runs.
    Foreign,
}

impl Fleet {
    /// Writes to a guest's console, as its keyboard does. Says how many bytes it took: a guest
    /// that does not read is not waited for.
    pub fn type_console(&mut self, guest: usize, bytes: &[u8]) -> usize {
        let member = self.members.get_mut(guest);
        let Some(open) = member.and_then(|member| member.open.as_mut()) else { return 0 };
        open.console.write(bytes).unwrap_or(0)
    }

    /// The same fleet, with all guests' memory under one limit.
    #[must_use]
    pub fn under(mut self, tier: &Tier) -> Fleet {
        self.members.iter_mut().for_each(|member| member.tier = tier.clone());
        self
    }

    /// Ends all guests that run, all at once: what takes long is that each gives its memory back.
    pub fn end(&mut self) {
        for open in self.members.iter_mut().filter_map(|member| member.open.as_mut()) {
            open.process.strike();
        }
    }
}

impl Member {
    /// Takes a guest of which nothing is known for up.
    pub(super) fn trust_foreign(&mut self) {
        if self.daemon == Daemon::Foreign {
            self.state = if self.managed { State::Managed } else { State::Unmanaged };
            self.came_up = true;
        }
    }

    /// Puts its QEMU under the limit of all. One that cannot be put there would take what the
    /// others are to have.
    pub(super) fn join_tier(&mut self) {
        if let Some(pid) = self.pid()
            && let Err(error) = self.tier.join(pid)
        {
            self.end(error.to_string());
        }
    }

    /// How many bytes its console has said in all.
    pub fn console_end(&self) -> u64 {
        self.console_end
    }

    /// What its console has said since it had said `from` bytes, as far as that is kept.
    pub fn console_since(&self, from: u64) -> &[u8] {
        let kept = self.console();
        let behind = usize::try_from(self.console_end.saturating_sub(from)).unwrap_or(usize::MAX);
        &kept[kept.len() - behind.min(kept.len())..]
    }
}
