//! What makes a guest this one and no other, for a guest that goes on from another one's state.
//!
//! ```text
//!   template's state ─► clone runs ─► ctl: pinheadd --identify name=… ─► it is itself
//!                                                     then Welcome ─► its daemon says hello
//! ```
//!
//! A guest that boots gets all this from its kernel's command line, its firmware and its kernel's
//! chance; so does a clone when it reboots, and its UUID and addresses stay what they are here.

use std::time::Duration;

use crate::clock::time_of_day;
use crate::qemu::random_uuid;
use crate::{Error, Guest, GuestSpec};

/// What a guest is told of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its host name.
    pub name: String,
    /// Its machine's UUID; its machine id is made of it.
    pub uuid: String,
    /// What stands for this start of its kernel.
    pub boot_id: String,
    /// Its address and its hardware address, if it has a network.
    pub addresses: Option<(String, String)>,
    /// What its kernel's random numbers are mixed with: the only secret here.
    pub seed: String,
}

impl Identity {
    /// An identity for a guest that was just started. What is not in its description is new.
    pub fn new(spec: &GuestSpec, guest: &Guest) -> Result<Identity, Error> {
        let addresses = spec.net.as_ref().map(|net| (net.address().to_string(), net.mac()));
        // Two of them, from the kernel's random numbers: 244 bits.
        let seed = format!("{}{}", random_uuid()?, random_uuid()?).replace('-', "");
        Ok(Identity {
            name: spec.name.clone(),
            uuid: guest.uuid.clone(),
            boot_id: random_uuid()?,
            addresses,
            seed,
        })
    }

    /// The line for the guest's control port. It holds the time of day, so it is for now.
    pub fn command(&self) -> String {
        self.command_at(time_of_day())
    }

    fn command_at(&self, time_of_day: Duration) -> String {
        let Identity { name, uuid, boot_id, addresses, seed } = self;
        let machine = uuid.replace('-', "");
        let mut line = format!(
            "exec pinheadd --identify name={name} uuid={uuid} machine={machine} boot={boot_id}"
        );
        if let Some((address, mac)) = addresses {
            line += &format!(" mac={mac} ip={address}");
        }
        let (seconds, us) = (time_of_day.as_secs(), time_of_day.subsec_micros());
        line + &format!(" seed={seed} clock={seconds},{us}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_told_all_of_it_in_one_line() {
        let identity = Identity {
            name: "web7".into(),
            uuid: "u-1".into(),
            boot_id: "b".into(),
            addresses: Some(("10.1.0.7".into(), "52:54:00:00:00:07".into())),
            seed: "5eed".into(),
        };
        assert_eq!(
            identity.command_at(Duration::new(1_800_000_000, 42_000_000)),
            "exec pinheadd --identify name=web7 uuid=u-1 machine=u1 boot=b mac=52:54:00:00:00:07 \
             ip=10.1.0.7 seed=5eed clock=1800000000,42000"
        );
    }
}
