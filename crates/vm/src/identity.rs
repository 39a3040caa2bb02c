//! What makes a guest this one and no other, for a guest that goes on from another one's state.
//!
//! ```text
//!   template's state ─► clone runs ─► port: Identify ─► its daemon makes it itself ─► Identified
//!                                                             then Welcome ─► hello, as this guest
//! ```
//!
//! A guest that boots gets all this from its kernel's command line, its firmware and its kernel's
//! chance; so does a clone when it reboots, and its UUID and addresses stay what they are here.

use wire::{Addresses, Identity};

use crate::random::random;
use crate::{Error, GuestSpec};
use images::time_of_day;

/// An identity for a guest that was just started with this UUID. What is not in its description is
/// new. It holds the time of day, so it is for now.
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

/// A UUID that nobody had before: a guest that is started again under its name is another one.
pub(crate) fn random_uuid() -> Result<[u8; 16], Error> {
    let mut bytes: [u8; 16] = random()?;
    // RFC 9562: version 4, and the variant that all have.
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
