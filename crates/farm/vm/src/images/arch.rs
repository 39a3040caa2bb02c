//! The architectures of guests.

base::named! {
    /// The architecture of a guest, by its name in target triples, file names and QEMU's programs.
    pub enum Arch {
        /// The PC. The guest's pool is the virtio balloon.
        X86_64 = "x86_64",
        /// IBM Z. The guest's pool is the kernel's own CMM.
        S390x = "s390x",
    }
}

impl Arch {
    /// Returns Debian's name of the architecture.
    pub fn debian(self) -> &'static str {
        match self {
            Arch::X86_64 => "amd64",
            Arch::S390x => "s390x",
        }
    }

    /// Returns the QEMU program that runs such guests.
    pub fn qemu_program(self) -> String {
        format!("qemu-system-{self}")
    }

    /// Returns the Debian package that contains the QEMU program.
    pub fn qemu_package(self) -> &'static str {
        match self {
            Arch::X86_64 => "qemu-system-x86",
            Arch::S390x => "qemu-system-misc (Debian 12) or qemu-system-s390x",
        }
    }

    /// Returns the bus of QEMU's virtio devices.
    pub fn bus(self) -> &'static str {
        match self {
            Arch::X86_64 => "pci",
            Arch::S390x => "ccw",
        }
    }

    /// Returns the architecture that this program was built for, if guests can have it.
    pub fn host() -> Option<Arch> {
        Arch::from_name(std::env::consts::ARCH)
    }
}
