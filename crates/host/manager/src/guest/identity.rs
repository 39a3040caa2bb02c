//! A guest's identity, which changes with each boot.

use hypervisor::Found;
use model::GuestIdentity;
use std::sync::Arc;

/// Shortest interval between two notes of a guest's reboots. No guest boots faster.
const BOOT_NOTE_MS: u64 = 2_000;
/// Shortest interval between two notes about a guest's previous host.
const ORIGIN_NOTE_MS: u64 = 60_000;

/// A guest's identity, through its boots.
#[derive(Debug)]
pub struct IdentityTracker {
    /// Current identity.
    pub who: Arc<GuestIdentity>,
    /// Class from the settings, by the guest's name; empty if there is no class. The current
    /// identity keeps an earlier class until the identity is renewed, such as at a reboot.
    pub class: String,
    /// Class from the guest's `pinhead up`; empty if there is no class.
    farm_class: String,
    boot: Option<[u8; 16]>,
    boots: u32,
    noted_ms: Option<u64>,
    origin_noted_ms: Option<u64>,
}

impl IdentityTracker {
    /// Returns the tracker of a newly found guest.
    pub fn new(found: &Found, class: String) -> IdentityTracker {
        let who = Arc::new(identity(found, &class, None, 0));
        IdentityTracker {
            who,
            class,
            farm_class: String::new(),
            boot: None,
            boots: 0,
            noted_ms: None,
            origin_noted_ms: None,
        }
    }

    /// Stores the class from the guest's `pinhead up`, which applies if the settings have no class
    /// for the guest.
    pub fn has_farm_class(&mut self, class: &str, found: &Found) {
        if self.farm_class != class {
            class.clone_into(&mut self.farm_class);
            self.renew(found);
        }
    }

    /// Returns the class from the settings, or else from `pinhead up`. Empty if there is no class.
    pub fn class(&self) -> &str {
        if self.class.is_empty() { &self.farm_class } else { &self.class }
    }

    /// Notes a reboot.
    pub fn rebooted(&mut self, found: &Found) {
        self.boots += 1;
        self.renew(found);
    }

    /// Returns true if a reboot is worth a note.
    pub fn is_worth_a_note(&mut self, now_ms: u64) -> bool {
        is_due(&mut self.noted_ms, BOOT_NOTE_MS, now_ms)
    }

    /// Returns true if the reported origin of the guest is worth a note. A guest may report any
    /// host, at any rate.
    pub fn is_origin_worth_a_note(&mut self, now_ms: u64) -> bool {
        is_due(&mut self.origin_noted_ms, ORIGIN_NOTE_MS, now_ms)
    }

    /// Stores the boot ID reported by the daemon. Returns true if it has changed.
    pub fn is_new_boot(&mut self, boot: [u8; 16], found: &Found) -> bool {
        let before = self.boot.replace(boot);
        if before == Some(boot) {
            return false;
        }
        self.renew(found);
        before.is_some()
    }

    fn renew(&mut self, found: &Found) {
        self.who = Arc::new(identity(found, self.class(), self.boot, self.boots));
    }
}

fn identity(found: &Found, class: &str, boot: Option<[u8; 16]>, boots: u32) -> GuestIdentity {
    let hex = |bytes: [u8; 16]| bytes.map(|byte| format!("{byte:02x}")).concat();
    let is_known = !found.has_monitor() || found.uuid != [0; 16];
    GuestIdentity {
        uuid: if is_known { wire::uuid_text(&found.uuid) } else { found.source.clone() },
        name: found.name.clone(),
        class: class.to_owned(),
        pid: found.process.map(|process| process.pid),
        start_ticks: found.process.map(|process| process.start_ticks),
        boot: boot.map_or_else(|| format!("boot {boots}"), hex),
    }
}

/// Returns true if a note is due again, and then stores its time.
fn is_due(noted_ms: &mut Option<u64>, every_ms: u64, now_ms: u64) -> bool {
    let is_due = noted_ms.is_none_or(|at| now_ms >= at + every_ms);
    if is_due {
        *noted_ms = Some(now_ms);
    }
    is_due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_of_the_settings_counts_before_that_of_a_farm() {
        let found = hypervisor::Fake::found("web1", base::Bytes::mib(64));
        let mut tracker = IdentityTracker::new(&found, String::new());
        tracker.has_farm_class("web", &found);
        assert_eq!((tracker.class(), tracker.who.class.as_str()), ("web", "web"));
        // The settings are read again. The identity for journal entries keeps the old class.
        tracker.class = "slow".into();
        assert_eq!((tracker.class(), tracker.who.class.as_str()), ("slow", "web"));
        tracker.rebooted(&found);
        assert_eq!(tracker.who.class, "slow");
    }

    #[test]
    fn frequent_reports_are_noted_at_a_limited_rate() {
        let mut noted_ms = None;
        let noted = (0..=120).filter(|s| is_due(&mut noted_ms, ORIGIN_NOTE_MS, s * 1_000));
        assert_eq!(noted.collect::<Vec<_>>(), [0, 60, 120]);
    }
}
