//! The two ways to execute a guest's instructions.

use std::fmt;

/// The way in which a guest's instructions are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    /// Execution by the host's processor.
    Kvm,
    /// Execution by QEMU's translator.
    Emulation(WhyEmulation),
}

/// The reason why a guest must be emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyEmulation {
    /// The guest's architecture is not the host's.
    OtherArchitecture,
    /// The host's processor offers no virtualisation, as on many nested hosts.
    NoProcessorSupport,
    /// `/dev/kvm` is missing, or this user may not open it.
    DeviceClosed,
    /// Only root may open `/dev/kvm`, but QEMU runs as another user. No group that QEMU could join
    /// has access.
    DeviceKept,
    /// `/dev/kvm` exists but does not work: a guest started with KVM did not run.
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
            WhyEmulation::NoProcessorSupport => "this processor offers no virtualisation",
            WhyEmulation::DeviceClosed => "/dev/kvm cannot be opened",
            WhyEmulation::DeviceKept => {
                "only root may use /dev/kvm, and no guest's QEMU runs as root"
            }
            WhyEmulation::KvmSilent => {
                "KVM exists, but a guest that was started with KVM did not run"
            }
            WhyEmulation::Asked => "as requested",
        };
        write!(f, "software emulation ({why})")
    }
}
