//! A guest's identity: a new boot makes it another one.

use hypervisor::Found;
use model::GuestIdentity;
use std::sync::Arc;

/// A guest that starts again is noted at most this often; none boots in less.
const BOOT_NOTE_MS: u64 = 2_000;
/// The host that it says it was on before is noted at most this often.
const ORIGIN_NOTE_MS: u64 = 60_000;

/// A guest's identity, through its boots.
#[derive(Debug)]
pub struct IdentityTracker {
    /// Its identity.
    pub who: Arc<GuestIdentity>,
    /// The class that its name put it in; empty for none. What is in the journal already stays as
    /// it is when this changes.
    pub class: String,
    /// The class that its `pinhead up` has it in; empty for none.
    farm_class: String,
    boot: Option<[u8; 16]>,
    boots: u32,
    noted_ms: Option<u64>,
    origin_noted_ms: Option<u64>,
}

impl IdentityTracker {
    /// That of a guest as it was found.
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

    /// Takes the class that its `pinhead up` has it in. It is told where the settings have none.
    pub fn has_farm_class(&mut self, class: &str, found: &Found) {
        if self.farm_class != class {
            class.clone_into(&mut self.farm_class);
            self.renew(found);
        }
    }

    /// The class that the settings have it in, or else its `pinhead up`; empty for none.
    pub fn class(&self) -> &str {
        if self.class.is_empty() { &self.farm_class } else { &self.class }
    }

    /// It has started again.
    pub fn rebooted(&mut self, found: &Found) {
        self.boots += 1;
        self.renew(found);
    }

    /// Whether that is to be noted.
    pub fn is_worth_a_note(&mut self, now_ms: u64) -> bool {
        is_due(&mut self.noted_ms, BOOT_NOTE_MS, now_ms)
    }

    /// It says on which host it was before: whether that is to be noted. It may say what it likes,
    /// and as often.
    pub fn is_origin_worth_a_note(&mut self, now_ms: u64) -> bool {
        is_due(&mut self.origin_noted_ms, ORIGIN_NOTE_MS, now_ms)
    }

    /// Its daemon reported its boot. True if that is another one than before.
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

/// Whether something that was noted then may be noted again, and that it is.
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
        let found = hypervisor::Fake::found("web1", counters::Bytes::mib(64));
        let mut tracker = IdentityTracker::new(&found, String::new());
        tracker.has_farm_class("web", &found);
        assert_eq!((tracker.class(), tracker.who.class.as_str()), ("web", "web"));
        // The settings are read again: what is in the journal stays.
        tracker.class = "slow".into();
        assert_eq!((tracker.class(), tracker.who.class.as_str()), ("slow", "web"));
        tracker.rebooted(&found);
        assert_eq!(tracker.who.class, "slow");
    }

    #[test]
    fn what_a_guest_says_all_the_time_is_noted_now_and_then() {
        let mut noted_ms = None;
        let noted = (0..=120).filter(|s| is_due(&mut noted_ms, ORIGIN_NOTE_MS, s * 1_000));
        assert_eq!(noted.collect::<Vec<_>>(), [0, 60, 120]);
    }
}
