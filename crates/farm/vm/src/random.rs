//! Random numbers from the kernel.

use crate::images::FileContext;

use crate::Error;

const RANDOM: &str = "/dev/urandom";

/// Returns `N` random bytes. The error means that the device cannot be read.
pub fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    std::fs::File::open(RANDOM)
        .and_then(|mut device| std::io::Read::read_exact(&mut device, &mut bytes))
        .file("read", RANDOM)?;
    Ok(bytes)
}
