//! A read-only view of the host and its guests, for the owners of state that decide.

use crate::config::Settings;
use crate::guests::Guests;
use crate::machine::HostMeter;
use crate::owners::Owners;
use base::Bytes;
use policy::arbiter::Config;

/// Current state of the host and of its guests.
#[derive(Clone, Copy)]
pub(crate) struct World<'a> {
    /// Settings in force.
    pub settings: &'a Settings,
    /// Guests of the host.
    pub guests: &'a Guests,
    /// Last reading of the host.
    pub host: &'a HostMeter,
    /// Targets for the host's memory: set point, reserve.
    pub plan: Config,
    /// True if decisions are carried out.
    pub acts: bool,
    /// True if memory may be reclaimed: a keeper would restore it, or no keeper is needed.
    pub is_leased: bool,
    /// Memory saved by KSM.
    pub ksm_gain: Option<Bytes>,
    /// Memory that the host would soon gain by page-out in a shortage of memory.
    pub page_out: Bytes,
}

impl World<'_> {
    /// Returns the owners of the host's memory, by the last reading.
    pub fn owners(&self) -> Owners {
        let machine = self.host.machine();
        let own = machine.map_or(Bytes::ZERO, |machine| machine.own);
        let saved = self.ksm_gain.unwrap_or(Bytes::ZERO);
        let handed_out = machine.map(|machine| machine.total.less(machine.available));
        Owners::of(self.guests.iter(), own).with_saved(saved).with_unseen(handed_out)
    }
}
