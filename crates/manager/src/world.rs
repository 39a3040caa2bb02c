//! What is known, for owners that decide. It is read and never changed through this.

use crate::config::Settings;
use crate::guests::Guests;
use crate::machine::HostMeter;
use crate::owners::Owners;
use counters::Bytes;
use policy::arbiter::Config;

/// The state of the host and of its guests, as of now.
#[derive(Clone, Copy)]
pub(crate) struct World<'a> {
    /// The settings that hold.
    pub settings: &'a Settings,
    /// The guests.
    pub guests: &'a Guests,
    /// What was read of the host last.
    pub host: &'a HostMeter,
    /// How the host's memory is kept: set point, reserve.
    pub plan: Config,
    /// Whether decisions are carried out.
    pub acts: bool,
    /// Whether a keeper would give back what is taken, if this process ended.
    pub is_leased: bool,
    /// Memory that page sharing saves.
    pub ksm_gain: Option<Bytes>,
    /// What page-out is expected to gain soon, if the host is short.
    pub page_out: Bytes,
}

impl World<'_> {
    /// Who has what of the host's memory, by what was read last.
    pub fn owners(&self) -> Owners {
        let machine = self.host.machine();
        let own = machine.map_or(Bytes::ZERO, |machine| machine.own);
        let saved = self.ksm_gain.unwrap_or(Bytes::ZERO);
        let handed_out = machine.map(|machine| machine.total.less(machine.available));
        Owners::of(self.guests.iter(), own).with_saved(saved).with_unseen(handed_out)
    }
}
