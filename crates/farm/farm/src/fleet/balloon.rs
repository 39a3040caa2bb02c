//! Grants that QEMU applies to a guest's balloon. QEMU applies one grant at a time. Of the requests
//! that arrive meanwhile, only the newest is kept.

use qmp::{Failure, Reply, Ticket};
use wire::{Grant, PoolRequest};

#[derive(Debug, Default)]
pub(super) struct BalloonGrants {
    /// The balloon command that QEMU has not answered yet, and the grant for the daemon if the
    /// command succeeds.
    pending: Option<(Ticket, Grant)>,
    wanted: Option<PoolRequest>,
    granted_pages: u64,
}

impl BalloonGrants {
    /// Accepts a request. Returns the request if QEMU is free to apply it now, and queues it
    /// otherwise.
    pub(super) fn request(&mut self, request: PoolRequest) -> Option<PoolRequest> {
        if self.pending.is_none() {
            return Some(request);
        }
        self.wanted = Some(request);
        None
    }

    /// Records a command that QEMU has not answered yet. The daemon gets the grant after QEMU's
    /// response.
    pub(super) fn begin(&mut self, ticket: Ticket, grant: Grant) {
        self.pending = Some((ticket, grant));
    }

    /// Returns a grant of the current size, for a command that QEMU did not accept.
    pub(super) fn refuse(&self, sequence: u32, reason: String) -> Grant {
        Grant { sequence, pages: self.granted_pages, reason }
    }

    /// Takes QEMU's response. Returns the grant for the daemon, and the next request.
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

    pub(super) fn is_busy(&self) -> bool {
        self.pending.is_some()
    }

    /// Drops all requests, because another manager controls the balloon. QEMU's responses to
    /// earlier commands are then ignored.
    pub(super) fn yield_to_other_manager(&mut self) {
        (self.pending, self.wanted) = (None, None);
    }

    /// Records that all memory belongs to the guest again.
    pub(super) fn reset(&mut self) {
        self.granted_pages = 0;
    }
}
