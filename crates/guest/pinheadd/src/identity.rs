//! Change of identity for a guest that starts from another guest's state.
//!
//! The host sends the new identity to the daemon, which already runs and has a port. A separate
//! process would cost an emulated guest more time, and more memory for translated code, than the
//! rest of the guest's start.

use crate::interface::Interfaces;
use crate::sys;
use procfs::Root;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use wire::{Addresses, Identity, uuid_text};

/// Path of a file that exists from the start of a template's guest until a clone gets its identity.
/// Other files in the file's directory are mounted over the kernel's files that contain the
/// machine's identity.
const UNNAMED: &str = "run/pinhead-identity/unnamed";

const INTERFACE: &str = "eth0";
/// Netmask of all guests of a host, and the host's address in that network.
const MASK: Ipv4Addr = Ipv4Addr::new(255, 0, 0, 0);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

const DEVICE: &str = "dev/urandom";

/// Applies the identity as far as possible. The error lists the parts that failed.
pub fn take_on(root: &Root, identity: &Identity) -> Result<(), String> {
    // The file can be removed only once, so that a host cannot change a guest that already has an
    // identity.
    fs::remove_file(root.join(UNNAMED)).map_err(|_| {
        "This guest has its own identity already, and does not take another one".to_owned()
    })?;
    let mut failed = Vec::new();
    let mut try_to = |what: &str, done: io::Result<()>| {
        if let Err(error) = done {
            failed.push(format!("{what}: {error}"));
        }
    };
    try_to("Cannot set the clock", sys::set_clock(identity.clock));
    // Reseeding must precede the first use of a random number.
    try_to("Cannot reseed the random numbers", reseed(root, &identity.seed));
    for (path, text) in files(identity) {
        let path = root.join(path);
        // A machine without firmware tables has no UUID to replace.
        if !path.ends_with("uuid") || path.exists() {
            try_to(&path.display().to_string(), fs::write(&path, format!("{text}\n")));
        }
    }
    if let Some(addresses) = identity.addresses {
        try_to(INTERFACE, connect(addresses));
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

/// Returns the files to write, with their content.
fn files(identity: &Identity) -> [(&'static str, String); 5] {
    let uuid = uuid_text(&identity.uuid);
    [
        ("proc/sys/kernel/hostname", identity.name.clone()),
        ("etc/hostname", identity.name.clone()),
        ("etc/machine-id", uuid.replace('-', "")),
        ("run/pinhead-identity/uuid", uuid),
        ("run/pinhead-identity/boot", uuid_text(&identity.boot_id)),
    ]
}

/// Reseeds the kernel's random numbers, because two guests would otherwise generate the same
/// secrets. The kernel mixes bytes written to the random device into its pool at once. Without a
/// reseed, these bytes affect the random numbers up to a minute later.
fn reseed(root: &Root, seed: &[u8]) -> io::Result<()> {
    let mut device = File::options().write(true).open(root.join(DEVICE))?;
    device.write_all(seed)?;
    sys::reseed(&device)
}

fn connect(addresses: Addresses) -> io::Result<()> {
    let interfaces = Interfaces::open()?;
    interfaces.set_hardware(INTERFACE, addresses.mac)?;
    interfaces.set_address(INTERFACE, addresses.ip, MASK)?;
    interfaces.set_gateway(GATEWAY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn identity() -> Identity {
        Identity {
            name: "web7".into(),
            uuid: [0x11; 16],
            boot_id: [0x22; 16],
            addresses: None,
            seed: [0; 32],
            clock: Duration::ZERO,
        }
    }

    #[test]
    fn a_guest_is_recognized_by_its_files() {
        let wanted = [
            ("proc/sys/kernel/hostname", "web7"),
            ("etc/hostname", "web7"),
            ("etc/machine-id", "11111111111111111111111111111111"),
            ("run/pinhead-identity/uuid", "11111111-1111-1111-1111-111111111111"),
            ("run/pinhead-identity/boot", "22222222-2222-2222-2222-222222222222"),
        ];
        let found = files(&identity());
        assert_eq!(found.each_ref().map(|(path, text)| (*path, &text[..])), wanted);
    }

    #[test]
    fn guest_with_an_identity_keeps_it() {
        let dir = procfs::testing::Tree::create();
        fs::create_dir_all(dir.join("etc")).unwrap();
        let refusal = take_on(&Root::at(dir.path()), &identity()).unwrap_err();
        assert!(refusal.contains("has its own identity already"), "{refusal}");
        assert!(!dir.join("etc/hostname").exists());
    }
}
