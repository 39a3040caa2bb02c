//! Grants on their way through QEMU: one at a time, while it works only the newest request waits.

use qmp::{Failure, Reply, Ticket};
use wire::{Grant, PoolRequest};

/// The size that a guest's balloon has, and the one that it is to have.
#[derive(Debug, Default)]
pub(super) struct BalloonGrants {
    /// A command that QEMU has not answered yet, and what is granted by it.
    pending: Option<(Ticket, Grant)>,
    wanted: Option<PoolRequest>,
    granted_pages: u64,
}

impl BalloonGrants {
    /// Takes a request; gives it back if QEMU is free for it now.
    pub(super) fn request(&mut self, request: PoolRequest) -> Option<PoolRequest> {
        if self.pending.is_none() {
            return Some(request);
        }
        self.wanted = Some(request);
        None
    }

    /// QEMU has the command; the daemon gets its grant when QEMU has answered.
    pub(super) fn begin(&mut self, ticket: Ticket, grant: Grant) {
        self.pending = Some((ticket, grant));
    }

    /// QEMU does not take the command: the grant of what the guest has already.
    pub(super) fn refuse(&self, sequence: u32, reason: String) -> Grant {
        Grant { sequence, pages: self.granted_pages, reason }
    }

    /// Takes QEMU's answer: the grant for the daemon, and the request that is next.
    pub(super) fn answered(
        &mut self,
        ticket: Ticket,
        outcome: Result<Reply, Failure>,
    ) -> Option<(Grant, Option<PoolRequest>)> {
        let (_, grant) = self.pending.take_if(|(asked, _)| *asked == ticket)?;
        let grant = match outcome {
            Ok(_) => {
                self.granted_pages = grant.pages;
                grant
            }
            Err(failure) => self.refuse(grant.sequence, failure.desc),
        };
        Some((grant, self.wanted.take()))
    }

    /// Whether QEMU still has to answer.
    pub(super) fn is_busy(&self) -> bool {
        self.pending.is_some()
    }

    /// Another has the balloon: what QEMU still answers is nobody's any more.
    pub(super) fn yield_to_other_manager(&mut self) {
        (self.pending, self.wanted) = (None, None);
    }

    /// All memory is the guest's again.
    pub(super) fn reset(&mut self) {
        self.granted_pages = 0;
    }
}
