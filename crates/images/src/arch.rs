//! The architectures of guests.

use std::fmt;

/// The architecture of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arch {
    /// The PC. Its pool is the virtio balloon.
    X86_64,
    /// IBM Z. Its pool is the kernel's own CMM.
    S390x,
}

impl Arch {
    /// All architectures, to loop over.
    pub const ALL: [Arch; 2] = [Arch::X86_64, Arch::S390x];

    /// The name in target triples, file names and QEMU's programs.
    pub fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::S390x => "s390x",
        }
    }

    /// Debian's name.
    pub fn debian(self) -> &'static str {
        match self {
            Arch::X86_64 => "amd64",
            Arch::S390x => "s390x",
        }
    }

    /// The QEMU program that runs such guests.
    pub fn qemu_program(self) -> &'static str {
        match self {
            Arch::X86_64 => "qemu-system-x86_64",
            Arch::S390x => "qemu-system-s390x",
        }
    }

    /// The Debian package with that program.
    pub fn qemu_package(self) -> &'static str {
        match self {
            Arch::X86_64 => "qemu-system-x86",
            Arch::S390x => "qemu-system-misc (Debian 12) or qemu-system-s390x",
        }
    }

    /// What QEMU calls the bus of its virtio devices.
    pub fn bus(self) -> &'static str {
        match self {
            Arch::X86_64 => "pci",
            Arch::S390x => "ccw",
        }
    }

    /// The architecture that this program was built for, if guests can have it.
    pub fn host() -> Option<Arch> {
        Arch::ALL.into_iter().find(|arch| arch.name() == std::env::consts::ARCH)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
