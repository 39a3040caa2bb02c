//! Sizes to restore for guests without a visible process, which may run in a container. If the
//! connection to such a guest's monitor is lost for a second, the guest is found again as a new
//! guest. Its present size, which may be smaller, must not count as its full size.

use std::collections::BTreeMap;

use base::Bytes;
use hypervisor::Found;

/// Maximum number of stored sizes. No host has as many guests.
const SIZES_MAX: usize = 10_000;

/// Identity of a guest without a process: its source, its UUID and its name there.
type Name = (String, [u8; 16], String);

/// Sizes to restore of guests without a visible process, for the lifetime of their manager.
#[derive(Debug, Default)]
pub(crate) struct UnseenSizes(BTreeMap<Name, Bytes>);

impl UnseenSizes {
    /// Stores the size to restore, or removes the stored size of a guest with its full size.
    pub(crate) fn set(&mut self, found: &Found, size: Option<Bytes>) {
        let name = name(found);
        match size {
            None => drop(self.0.remove(&name)),
            Some(size) if self.0.len() < SIZES_MAX || self.0.contains_key(&name) => {
                self.0.insert(name, size);
            }
            Some(_) => {}
        }
    }

    /// Returns the size to restore of a guest that was found with less memory. A guest with more
    /// memory was restarted.
    pub(crate) fn of(&self, found: &Found) -> Option<Bytes> {
        self.0.get(&name(found)).copied().filter(|size| found.actual < *size)
    }
}

fn name(found: &Found) -> Name {
    (found.source.clone(), found.uuid, found.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypervisor::Fake;

    #[test]
    fn report_h10_sizes_of_unseen_guests_do_not_pile_up() {
        let mut sizes = UnseenSizes::default();
        let memory = Bytes::mib(256);
        let small = |uuid: u32| {
            let mut found = Found { actual: Bytes(1), ..Fake::found("web", memory) };
            found.uuid[..4].copy_from_slice(&uuid.to_be_bytes());
            found
        };
        (0..20_000).for_each(|uuid| sizes.set(&small(uuid), Some(memory)));
        assert_eq!((sizes.of(&small(0)), sizes.of(&small(19_999))), (Some(memory), None));
        assert_eq!(sizes.of(&Found { actual: memory, ..small(0) }), None, "a restarted guest");
        assert_eq!(sizes.of(&Found { source: "other".into(), ..small(0) }), None);
        sizes.set(&small(0), None);
        assert_eq!(sizes.of(&small(0)), None);
    }
}
