//! Facts about an installed QEMU that are needed before a guest is started with it.

use std::process::Command;
use std::sync::OnceLock;

use crate::images::Arch;
use crate::images::run;

use crate::Error;

/// QEMU's version: the major and the minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32);

/// The first QEMU that locks a page of guest code before it translates the page (commit
/// deba78709ae8, "accel/tcg: Always lock pages before translation"). In older versions a vCPU may
/// translate code while another vCPU changes it, and keep the stale translation. A Linux that
/// patches itself then hangs, because it keeps executing an INT3 that was in the code only for a
/// moment.
const LOCKS_PAGES: Version = Version(8, 1);

/// The first QEMU that accepts the name of a state's file. Older versions need the number of a
/// descriptor, which QEMU 11 refuses.
const NAMES_STATES: Version = Version(9, 1);

/// Returns the version text of QEMU for this architecture. QEMU is run once to get this text.
pub(crate) fn version_text(arch: Arch) -> Result<&'static str, Error> {
    static TEXTS: [OnceLock<String>; Arch::ALL.len()] = [const { OnceLock::new() }; _];
    let text = &TEXTS[arch as usize];
    if let Some(known) = text.get() {
        return Ok(known);
    }
    let hint = format!("install {}", arch.qemu_package());
    let output = run(Command::new(arch.qemu_program()).arg("--version"), &hint)?.stdout;
    Ok(text.get_or_init(|| String::from_utf8_lossy(&output).into_owned()))
}

/// Returns true if this QEMU may keep running a stale translation of code that was changed
/// meanwhile, or if its version is unknown.
pub(crate) fn keeps_stale_code(arch: Arch) -> bool {
    let version = version_text(arch).ok().and_then(version);
    version.is_none_or(|version| version < LOCKS_PAGES)
}

/// Returns true if this QEMU accepts the name of a state's file, or if its version is unknown.
pub(crate) fn names_states(arch: Arch) -> bool {
    let version = version_text(arch).ok().and_then(version);
    version.is_none_or(|version| version >= NAMES_STATES)
}

/// Reads the version in `QEMU emulator version 7.2.22 (Debian …)`.
fn version(text: &str) -> Option<Version> {
    let (_, number) = text.split_once("version ")?;
    let mut parts = number.split(|c: char| !c.is_ascii_digit());
    let mut part = || parts.next()?.parse().ok();
    Some(Version(part()?, part()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_and_compared_by_its_numbers() {
        let debian = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright\n";
        assert_eq!(version(debian), Some(Version(7, 2)));
        assert!(version(debian).is_some_and(|version| version < LOCKS_PAGES));
        for mended in ["8.1.0", "8.2.2 (Debian 1:8.2.2)", "10.0", "10.0.2-rc1"] {
            let text = format!("QEMU emulator version {mended}");
            assert!(version(&text).is_some_and(|version| version >= LOCKS_PAGES), "{text}");
        }
        for unclear in ["", "QEMU", "QEMU emulator version eight", "version 8"] {
            assert_eq!(version(unclear), None, "{unclear}");
        }
    }
}
