//! Makes a guest that goes on from another one's state itself.
//!
//! ```text
//!   name=NAME uuid=UUID machine=HEX boot=UUID [mac=ADDRESS ip=ADDRESS]
//!   seed=HEX clock=SECONDS,MICROSECONDS ─► names, addresses, clock, random numbers
//! ```
//!
//! One process does all of it: each one more costs an emulated guest more than the rest together,
//! in time and in memory for translated code.

use crate::interface::Interfaces;
use crate::sys;
use std::fs::{self, File};
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

const INTERFACE: &str = "eth0";
/// The network of all guests of a host, and the host in it.
const MASK: Ipv4Addr = Ipv4Addr::new(255, 0, 0, 0);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

const DEVICE: &str = "/dev/urandom";
/// Fewer digits than this could be guessed: 128 bits, as hexadecimal digits.
const SEED_DIGITS_MIN: usize = 32;

/// What a guest is told of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// What goes into which file, in the order in which it was told.
    files: Vec<(&'static str, String)>,
    mac: Option<[u8; 6]>,
    ip: Option<Ipv4Addr>,
    seed: Option<String>,
    clock: Option<Duration>,
}

impl Identity {
    /// Reads the words.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Identity, String> {
        let mut identity = Identity::default();
        for word in words {
            let wrong = |what| Err(format!("{word}: it is no {what}"));
            let Some((key, value)) = word.split_once('=') else { return wrong("KEY=VALUE") };
            let mut file = |path| identity.files.push((path, value.to_owned()));
            match key {
                "name" => {
                    file("/proc/sys/kernel/hostname");
                    file("/etc/hostname");
                }
                "machine" => file("/etc/machine-id"),
                // The kernel's own files have these shown in their place.
                "uuid" => file("/run/pinhead-identity/uuid"),
                "boot" => file("/run/pinhead-identity/boot"),
                "mac" => match mac(value) {
                    None => return wrong("hardware address"),
                    found => identity.mac = found,
                },
                "ip" => match value.parse() {
                    Err(_) => return wrong("address"),
                    Ok(found) => identity.ip = Some(found),
                },
                "seed" if value.len() < SEED_DIGITS_MIN => {
                    let digits = value.len();
                    return Err(format!("The seed has {digits} digits, not {SEED_DIGITS_MIN}"));
                }
                "seed" => identity.seed = Some(value.to_owned()),
                "clock" => match time(value) {
                    None => return wrong("SECONDS,MICROSECONDS since 1970"),
                    found => identity.clock = found,
                },
                _ => return wrong("word of an identity"),
            }
        }
        Ok(identity)
    }

    /// Takes it on, all of it that can be; what cannot is told.
    pub fn take_on(&self) -> Result<(), String> {
        let mut failed = Vec::new();
        let mut try_to = |what: &str, done: std::io::Result<()>| {
            if let Err(error) = done {
                failed.push(format!("{what}: {error}"));
            }
        };
        if let Some(clock) = self.clock {
            try_to("Cannot set the clock", sys::set_clock(clock));
        }
        if let Some(seed) = &self.seed {
            try_to(&format!("Cannot reseed {DEVICE}"), reseed(seed));
        }
        for (path, text) in &self.files {
            // A machine without firmware tables has no UUID to be replaced.
            if !path.ends_with("/uuid") || Path::new(path).exists() {
                try_to(path, fs::write(path, format!("{text}\n")));
            }
        }
        if let Some(address) = self.ip {
            try_to(INTERFACE, self.connect(address));
        }
        if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
    }

    fn connect(&self, address: Ipv4Addr) -> std::io::Result<()> {
        let interfaces = Interfaces::open()?;
        if let Some(mac) = self.mac {
            interfaces.set_hardware(INTERFACE, mac)?;
        }
        interfaces.set_address(INTERFACE, address, MASK)?;
        interfaces.set_gateway(GATEWAY)
    }
}

/// Two guests would go on with the same secret numbers: what is written to the kernel's random
/// device is mixed into its pool, but for up to a minute nothing is drawn from there.
fn reseed(seed: &str) -> std::io::Result<()> {
    let mut device = File::options().write(true).open(DEVICE)?;
    device.write_all(seed.as_bytes())?;
    sys::reseed(&device)
}

/// A hardware address, six pairs of digits with colons.
fn mac(text: &str) -> Option<[u8; 6]> {
    let mut bytes = [0; 6];
    let mut pairs = text.split(':');
    for byte in &mut bytes {
        let is_pair = |pair: &&str| pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit());
        let pair = pairs.next().filter(is_pair)?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    pairs.next().is_none().then_some(bytes)
}

/// A time of day, as seconds and microseconds.
fn time(text: &str) -> Option<Duration> {
    let (seconds, us) = text.split_once(',')?;
    let us = us.parse().ok().filter(|us| *us < 1_000_000)?;
    let seconds = Duration::from_secs(seconds.parse().ok()?);
    seconds.checked_add(Duration::from_micros(us))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Identity, String> {
        Identity::parse(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn all_of_it_is_in_one_line() {
        let seed = "0123456789abcdef0123456789abcdef";
        let line = format!(
            "name=web7 uuid=u-1 machine=u1 boot=b mac=52:54:00:0a:00:07 ip=10.1.0.7 seed={seed} \
             clock=1800000000,42"
        );
        let found = parse(&line).unwrap();
        let files: Vec<_> = found.files.iter().map(|(path, text)| (*path, &text[..])).collect();
        let wanted = [
            ("/proc/sys/kernel/hostname", "web7"),
            ("/etc/hostname", "web7"),
            ("/run/pinhead-identity/uuid", "u-1"),
            ("/etc/machine-id", "u1"),
            ("/run/pinhead-identity/boot", "b"),
        ];
        assert_eq!(files, wanted);
        assert_eq!(found.mac, Some([0x52, 0x54, 0, 0x0a, 0, 7]));
        assert_eq!(found.ip, Some(Ipv4Addr::new(10, 1, 0, 7)));
        assert_eq!(found.seed.as_deref(), Some(seed));
        assert_eq!(found.clock, Some(Duration::new(1_800_000_000, 42_000)));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = [
            ("name", "KEY=VALUE"),
            ("color=red", "word of an identity"),
            ("mac=52:54:00:0a:00", "hardware address"),
            ("mac=52:54:00:0a:00:07:08", "hardware address"),
            ("mac=52:54:00:0a:00:+7", "hardware address"),
            ("ip=10.1.0", "address"),
            ("clock=18", "SECONDS,MICROSECONDS"),
            ("clock=18,1000000", "SECONDS,MICROSECONDS"),
            ("seed=0123456789abcdef", "16 digits, not 32"),
        ];
        for (line, why) in refused {
            let error = parse(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
