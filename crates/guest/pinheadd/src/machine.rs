//! Check that this machine is a guest, and not a host of other guests.

use std::path::Path;

use crate::args::Args;

/// Returns an error for a machine that is not a guest, unless the arguments allow such a machine.
/// An s390x machine always has a hypervisor.
pub fn check(args: &Args) -> Result<(), String> {
    if cfg!(target_arch = "s390x") {
        return Ok(());
    }
    check_by(args, is_host)
}

#[cfg(not(target_arch = "aarch64"))]
fn is_host() -> bool {
    has_no_hypervisor(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

#[cfg(target_arch = "aarch64")]
fn is_host() -> bool {
    arm::is_host(Path::new("/"))
}

fn check_by(args: &Args, is_host: impl FnOnce() -> bool) -> Result<(), String> {
    if args.root != Path::new("/") || args.dry_run || args.on_host {
        return Ok(());
    }
    match is_host() {
        true => Err("This machine is no guest: its CPUs and memory would go offline for all \
                     programs on it. Install pinheadd in the guests (`pinhead host` is for hosts), \
                     or run it here with --on-host"
            .to_owned()),
        false => Ok(()),
    }
}

/// Returns true if the CPU flags of an x86 machine name no hypervisor.
#[cfg(any(test, not(target_arch = "aarch64")))]
fn has_no_hypervisor(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_ascii_whitespace().all(|flag| flag != "hypervisor"))
}

/// On ARM a hypervisor is named by the firmware and not by the CPUs. `systemd-detect-virt` reads
/// the same data.
#[cfg(any(test, target_arch = "aarch64"))]
mod arm {
    use std::fs::{File, read_dir, read_to_string};
    use std::io::Read;
    use std::path::Path;

    /// Prefixes of hypervisors' names in DMI.
    const HYPERVISORS: [&str; 17] = [
        "KVM",
        "OpenStack",
        "KubeVirt",
        "Amazon EC2",
        "QEMU",
        "VMware",
        "VMW",
        "innotek GmbH",
        "VirtualBox",
        "Oracle Corporation",
        "Xen",
        "Bochs",
        "Parallels",
        "BHYVE",
        "Hyper-V",
        "Apple Virtualization",
        "Google Compute Engine",
    ];
    /// Fields of DMI that may contain such a name.
    const FIELDS: [&str; 5] =
        ["product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version"];

    /// Path of the SMBIOS structure that describes the firmware itself.
    const BIOS: &str = "sys/firmware/dmi/entries/0-0/raw";
    /// Offset of the byte with the bit for a virtual machine.
    const EXTENSION: usize = 0x13;
    const IS_VIRTUAL: u8 = 1 << 4;

    /// Returns the firmware's bit for a virtual machine. Returns `None` if the structure cannot be
    /// read, or is too short for the bit.
    fn virtual_bit(root: &Path) -> Option<bool> {
        let mut bytes = [0; EXTENSION + 1];
        File::open(root.join(BIOS)).ok()?.read_exact(&mut bytes).ok()?;
        let [kind, length, ..] = bytes;
        let has_it = kind == 0 && usize::from(length) > EXTENSION;
        has_it.then_some(bytes[EXTENSION] & IS_VIRTUAL != 0)
    }

    /// Returns true if the machine is certainly no guest. No hypervisor may be named, and the
    /// firmware's bit must be clear. A machine without that bit must be Amazon's metal, or have a
    /// device tree and no DMI. Any other machine may be a guest of an unknown cloud.
    pub(super) fn is_host(root: &Path) -> bool {
        let tree = root.join("proc/device-tree");
        let field = |name| read_to_string(root.join("sys/class/dmi/id").join(name)).ok();
        let fields = FIELDS.map(field);
        // Amazon's machines without a hypervisor have the name Amazon EC2, too.
        let is_metal = fields[0].as_ref().is_some_and(|name| name.trim_end().ends_with(".metal"));
        let has = |text: &String| HYPERVISORS.iter().any(|name| text.starts_with(name));
        let is_named = !is_metal && fields.iter().flatten().any(has);
        // Only QEMU has this device in its device tree.
        let is_qemu = |name: &str| name.starts_with("fw-cfg");
        let mut nodes = read_dir(&tree).into_iter().flatten().flatten();
        let is_guest = is_named
            || tree.join("hypervisor/compatible").exists()
            || nodes.any(|node| node.file_name().to_str().is_some_and(is_qemu));
        let has_dmi = fields.iter().any(Option::is_some);
        let is_known = match virtual_bit(root) {
            Some(is_virtual) => !is_virtual,
            None => is_metal || (tree.is_dir() && !has_dmi),
        };
        is_known && !is_guest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Command, parse};

    #[test]
    fn report_e01_a_host_is_told_from_a_guest_by_its_flags() {
        assert!(has_no_hypervisor("processor\t: 0\nflags\t\t: fpu vme de\nprocessor\t: 1\n"));
        assert!(!has_no_hypervisor("processor\t: 0\nflags\t\t: fpu hypervisor de\n"));
        assert!(!has_no_hypervisor("vendor_id       : IBM/S390\nfeatures\t: esan3 zarch\n"));
        assert!(!has_no_hypervisor(""));
    }

    #[test]
    fn report_e01_a_host_is_refused_unless_it_is_asked_for() {
        let check = |words: &[&str]| match parse(words.iter().map(Into::into)) {
            Command::Run(args) => check_by(&args, || true),
            other => panic!("{other:?}"),
        };
        let refused = check(&["-c", "rules"]).unwrap_err();
        assert!(refused.contains("--on-host"), "{refused}");
        for word in ["--on-host", "--dry-run", "--root=/tree"] {
            assert_eq!(check(&["-c", "rules", word]), Ok(()), "{word}");
        }
    }

    #[test]
    fn report_e01_an_arm_is_told_by_its_firmware() {
        let is_host = |files: &[(&str, &str)]| {
            let tree = procfs::testing::FakeKernel::new(1, 1);
            files.iter().for_each(|(path, text)| tree.write(path, text));
            arm::is_host(&tree.path(""))
        };
        let board = ("proc/device-tree/compatible", "raspberrypi,4-model-b\0");
        let vendor = |name| ("sys/class/dmi/id/sys_vendor", name);
        let amazon = [vendor("Amazon EC2\n"), ("sys/class/dmi/id/product_name", "a1.metal\n")];
        let clear = bios("\0");
        let real = ("sys/firmware/dmi/entries/0-0/raw", clear.as_str());
        assert!(is_host(&[board]));
        assert!(is_host(&[vendor("Ampere(R)\n"), real]));
        assert!(is_host(&amazon));
        assert!(!is_host(&[board, ("proc/device-tree/hypervisor/compatible", "linux,kvm\0")]));
        assert!(!is_host(&[board, ("proc/device-tree/fw-cfg@9020000/reg", "")]));
        assert!(!is_host(&[vendor("QEMU\n"), real]), "its firmware may not set the bit");
        assert!(!is_host(&[vendor("Amazon EC2\n")]));
        assert!(!is_host(&[]), "no field is known");
    }

    fn bios(byte: &str) -> String {
        format!("\0\u{18}{}{byte}{}", "\0".repeat(17), "\0".repeat(4))
    }

    #[test]
    fn arm_is_no_host_when_its_firmwares_bit_is_set_or_unknown() {
        let is_host = |raw: Option<String>| {
            let tree = procfs::testing::FakeKernel::new(1, 1);
            tree.write("sys/class/dmi/id/sys_vendor", "Some Cloud\n");
            tree.write("proc/device-tree/chosen/bootargs", "");
            if let Some(raw) = raw {
                tree.write("sys/firmware/dmi/entries/0-0/raw", &raw);
            }
            arm::is_host(&tree.path(""))
        };
        assert!(!is_host(Some(bios("\u{1c}"))), "the bit is set");
        assert!(is_host(Some(bios("\u{c}"))), "the bit is clear");
        assert!(!is_host(None), "it cannot be read");
        assert!(!is_host(Some("\0\u{18}\0".to_owned())), "it is cut");
        let short = bios("\0").replacen('\u{18}', "\u{12}", 1);
        assert!(!is_host(Some(short)), "the structure is older than the bit");
    }
}
