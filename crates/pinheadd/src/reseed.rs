//! New random numbers for a guest that goes on from the state of another one.
//!
//! Both would go on with the same secret numbers: what is written to the kernel's random device is
//! mixed into its pool, but for up to a minute nothing is drawn from there.

use crate::sys;
use std::fs::File;
use std::io::{Read, Write};
use std::time::Duration;

const DEVICE: &str = "/dev/urandom";

/// Fewer bytes than this could be guessed: 128 bits, as hexadecimal digits.
const SEED_BYTES_MIN: usize = 32;

/// More than this adds nothing: the kernel's pool holds 256 bits.
const SEED_BYTES_MAX: u64 = 4096;

/// Takes a seed into the kernel's pool and makes the kernel draw on it from now on. Sets the clock
/// before, if there is a time: a copy's clock stands where the other guest's was saved.
pub fn from(input: impl Read, time: Option<Duration>) -> Result<(), String> {
    if let Some(time) = time {
        sys::set_clock(time).map_err(|error| format!("Cannot set the clock: {error}"))?;
    }
    let mut seed = Vec::new();
    let read = input.take(SEED_BYTES_MAX).read_to_end(&mut seed);
    read.map_err(|error| format!("Cannot read the seed: {error}"))?;
    if seed.len() < SEED_BYTES_MIN {
        return Err(format!("The seed has {} bytes; it needs {SEED_BYTES_MIN}", seed.len()));
    }
    let tried = || {
        let mut device = File::options().write(true).open(DEVICE)?;
        device.write_all(&seed)?;
        sys::reseed(&device)
    };
    tried().map_err(|error| format!("Cannot reseed {DEVICE}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_that_is_too_short_is_refused() {
        let error = from(&b"0123456789abcdef"[..], None).unwrap_err();
        assert!(error.contains("it needs 32"), "{error}");
    }
}
