//! What is kept of the decisions about a guest.

use crate::effect::{Attention, Effect, GuestEvent};
use hypervisor::Id;
use policy::arbiter::{Decision, Inputs};
use std::collections::VecDeque;

/// Passes whose numbers are kept, so that rules that look back can be explained.
const RECENT: usize = 8;

/// The last decisions about a guest.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// What was decided last, and when by the wall clock.
    pub last: Option<(Decision, i64)>,
    /// The numbers of the last passes, the newest first.
    pub recent: VecDeque<Inputs>,
    /// Another manager moves its balloon.
    pub is_foreign: bool,
    /// How closely it is watched.
    pub attention: Attention,
}

impl Record {
    /// Keeps the numbers of a pass.
    pub(crate) fn remember(&mut self, inputs: Inputs) {
        self.recent.truncate(RECENT - 1);
        self.recent.push_front(inputs);
    }

    /// Has the guest watched like this from now on, if that is news.
    pub(crate) fn attend(&mut self, guest: Id, attention: Attention) -> Option<Effect> {
        let before = std::mem::replace(&mut self.attention, attention);
        (before != attention).then_some(Effect::Guests(GuestEvent::Attend(guest, attention)))
    }
}
