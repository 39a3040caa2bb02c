//! Sizes of gone guests that may return. A saved domain is restored with the balloon size that it
//! was saved with, in another process and with another id.

use base::Bytes;
use hypervisor::{Found, ZVM_SOURCE};
use std::collections::VecDeque;

/// Maximum number of stored sizes. The sizes of the guests that ended last are kept.
const SIZES_MAX: usize = 1_024;

/// Source of a guest, and its UUID there.
type Name = (String, [u8; 16]);

/// Sizes to restore for guests that are gone, if they return.
#[derive(Debug, Default)]
pub(super) struct SavedSizes(VecDeque<(Name, Bytes)>);

impl SavedSizes {
    /// Stores a gone guest's size to restore. Only libvirt's domains are stored, because a
    /// monitor's own report does not identify a guest.
    pub(super) fn keep(&mut self, found: &Found, size: Bytes) {
        if found.has_monitor() || found.source == ZVM_SOURCE {
            return;
        }
        self.take(found);
        if self.0.len() >= SIZES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((name(found), size));
    }

    pub(super) fn take(&mut self, found: &Found) -> Option<Bytes> {
        let name = name(found);
        let at = self.0.iter().position(|(kept, _)| *kept == name)?;
        self.0.remove(at).map(|(_, size)| size)
    }
}

fn name(found: &Found) -> Name {
    (found.source.clone(), found.uuid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypervisor::Fake;

    fn numbered(number: usize) -> Found {
        let mut found = Fake::found("web", Bytes::mib(256));
        found.uuid[..8].copy_from_slice(&number.to_be_bytes());
        found
    }

    #[test]
    fn saved_sizes_are_those_of_guests_that_went_last() {
        let mut saved = SavedSizes::default();
        (0..=SIZES_MAX).for_each(|number| saved.keep(&numbered(number), Bytes::mib(200)));
        saved.keep(&numbered(SIZES_MAX), Bytes::mib(100));
        assert_eq!(saved.take(&numbered(0)), None);
        assert_eq!(saved.take(&numbered(1)), Some(Bytes::mib(200)));
        assert_eq!(saved.take(&numbered(1)), None, "once");
        assert_eq!(saved.take(&numbered(SIZES_MAX)), Some(Bytes::mib(100)));
        let monitor = Found { source: "/run/web.qmp".into(), ..numbered(7) };
        saved.keep(&monitor, Bytes::mib(200));
        assert_eq!(saved.take(&monitor), None);
    }
}
