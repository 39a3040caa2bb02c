//! The identity of a guest that starts from another guest's saved state.
//!
//! ```text
//!   template's state ─► clone runs ─► port: Identify ─► its daemon applies it ─► Identified
//!                                                             then Welcome ─► hello, as this guest
//! ```
//!
//! A guest that boots gets its identity from its kernel's command line, from its firmware and from
//! its kernel's random numbers. A clone that reboots does the same, but keeps the UUID and the
//! addresses that were assigned here.

use wire::{Addresses, Identity};

use crate::images::time_of_day;
use crate::random::random;
use crate::{Error, GuestSpec};

/// Returns an identity for a guest that was just started with this UUID. The identity contains the
/// time of day, so it must be used at once.
pub fn identity(spec: &GuestSpec, uuid: [u8; 16]) -> Result<Identity, Error> {
    Ok(Identity {
        name: spec.name.clone(),
        uuid,
        boot_id: random_uuid()?,
        addresses: spec.net.as_ref().map(|net| Addresses { mac: net.mac(), ip: net.address() }),
        seed: random()?,
        clock: time_of_day(),
    })
}

/// Returns a random UUID. A guest that is started again under the same name is a different guest,
/// so its UUID must differ.
pub(crate) fn random_uuid() -> Result<[u8; 16], Error> {
    let mut bytes: [u8; 16] = random()?;
    // RFC 9562: version 4, and the variant that all versions share.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_uuid_says_so() {
        let (one, other) = (random_uuid().unwrap(), random_uuid().unwrap());
        assert_ne!(one, other);
        let text = wire::uuid_text(&one);
        assert_eq!(&text[14..15], "4", "{text}");
        assert!("89ab".contains(&text[19..20]), "{text}");
    }
}
