//! The two ways to execute a guest's instructions.

use std::fmt;

/// The way in which a guest's instructions are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    /// By the host's processor.
    Kvm,
    /// By QEMU's translator.
    Emulation(WhyEmulation),
}

/// The reason why a guest has to be emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyEmulation {
    /// The guest's architecture is not the host's.
    OtherArchitecture,
    /// The host's processor shows no virtualisation, as on many nested hosts.
    NoProcessorSupport,
    /// The device cannot be opened: it is missing or this user may not use it.
    DeviceClosed,
    /// The device is open to root and to no group, and the guest's QEMU will run as neither.
    DeviceKept,
    /// A guest was started with KVM and did not run: the device exists but does not work.
    KvmSilent,
    /// The caller requested emulation.
    Asked,
}

impl fmt::Display for Accel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self {
            Accel::Kvm => return f.write_str("KVM"),
            Accel::Emulation(why) => why,
        };
        let why = match why {
            WhyEmulation::OtherArchitecture => "the guest's architecture is not the host's",
            WhyEmulation::NoProcessorSupport => "this processor shows no virtualisation",
            WhyEmulation::DeviceClosed => "/dev/kvm cannot be opened",
            WhyEmulation::DeviceKept => "/dev/kvm is for root alone, which no guest's QEMU is",
            WhyEmulation::KvmSilent => "KVM is there, and no guest runs on it",
            WhyEmulation::Asked => "as asked",
        };
        write!(f, "software emulation ({why})")
    }
}
