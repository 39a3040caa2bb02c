//! Detection of KVM.

use std::fs;
use std::path::Path;

use crate::images::Arch;

use crate::rights::kvm_is_kept;
use crate::{Accel, WhyEmulation};

/// Returns the way in which guests of this architecture can run here.
///
/// An existing `/dev/kvm` proves little, because a guest on a nested host may still never print a
/// line. The device is therefore opened only if the processor's flags show support.
pub fn probe_kvm(arch: Arch) -> Accel {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let try_device = || {
        let device = Path::new("/dev/kvm");
        match fs::OpenOptions::new().read(true).write(true).open(device) {
            Err(_) => Err(WhyEmulation::DeviceClosed),
            Ok(_) if kvm_is_kept() => Err(WhyEmulation::DeviceKept),
            Ok(_) => Ok(()),
        }
    };
    decide(arch, Arch::host(), &cpuinfo, try_device)
}

fn decide(
    guest: Arch,
    host: Option<Arch>,
    cpuinfo: &str,
    try_device: impl FnOnce() -> Result<(), WhyEmulation>,
) -> Accel {
    if host != Some(guest) {
        return Accel::Emulation(WhyEmulation::OtherArchitecture);
    }
    let (line_start, wanted): (&str, &[&str]) = match guest {
        Arch::X86_64 => ("flags", &["vmx", "svm"]),
        Arch::S390x => ("features", &["sie"]),
    };
    let supported = cpuinfo
        .lines()
        .filter(|line| line.starts_with(line_start))
        .any(|line| line.split_ascii_whitespace().any(|word| wanted.contains(&word)));
    if !supported {
        return Accel::Emulation(WhyEmulation::NoProcessorSupport);
    }
    try_device().map_or_else(Accel::Emulation, |()| Accel::Kvm)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTEL: &str = "processor\t: 0\nflags\t\t: fpu vme vmx sse\n";

    #[test]
    fn kvm_needs_architecture_processor_and_device() {
        let x86 = Some(Arch::X86_64);
        let why = |why| Accel::Emulation(why);
        assert_eq!(decide(Arch::X86_64, x86, INTEL, || Ok(())), Accel::Kvm);
        for reason in [WhyEmulation::DeviceClosed, WhyEmulation::DeviceKept] {
            assert_eq!(decide(Arch::X86_64, x86, INTEL, || Err(reason)), why(reason));
        }
        assert_eq!(
            decide(Arch::S390x, x86, INTEL, || panic!("not asked")),
            why(WhyEmulation::OtherArchitecture)
        );
        assert_eq!(
            decide(Arch::X86_64, x86, "flags\t: fpu\nmodel name\t: vmx\n", || panic!("not asked")),
            why(WhyEmulation::NoProcessorSupport)
        );
        assert_eq!(
            decide(Arch::S390x, Some(Arch::S390x), "features\t: esan3 zarch sie\n", || Ok(())),
            Accel::Kvm
        );
    }
}
