//! QEMU's arguments for a guest's machine, and the command line of its kernel.
//!
//! Devices that cost time while the guest is idle are left out: default devices, and clock chips
//! that tick.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;

use crate::images::{Arch, FirstProcess};

use crate::rights::SANDBOX;
use crate::spec::DAEMON_PORT;
use crate::tsc::{self, Rate};
use crate::{Accel, GuestSpec, emulator};

/// Number of ports of a guest's serial device: the kernel's console (unused), the daemon's port,
/// the control port, and one more.
const PORTS: u32 = 4;

/// Timer ticks per second of Debian's kernels.
const TICKS_A_SECOND: u64 = 250;

/// The place of a guest's memory.
#[derive(Debug)]
pub(crate) enum Ram {
    /// Private memory of QEMU.
    Own,
    /// Shared mapping of this file, which is open for reading and writing. Only templates use this
    /// kind.
    File(File),
    /// Private mapping of this file, which is open for reading. A page is copied when it is written
    /// to.
    View(File),
}

impl Ram {
    /// Returns QEMU's arguments for this memory. A file is passed as QEMU's standard input: see
    /// [`crate::sys::memory_is_stdin`].
    pub(crate) fn arguments(&self, memory_mib: u64) -> Vec<OsString> {
        let share = match self {
            Ram::Own => return Vec::new(),
            Ram::File(_) => "on",
            Ram::View(_) => "off",
        };
        let object = format!(
            "memory-backend-file,id=ram,mem-path=/proc/self/fd/0,size={memory_mib}M,share={share}"
        );
        // A kernel that wipes or poisons free pages expects that reported pages are unchanged
        // later. Without page-poison from the host, such a kernel reports no pages.
        let poison = "virtio-balloon-device.page-poison=off".into();
        let machine = "memory-backend=ram".into();
        vec!["-object".into(), object.into(), "-machine".into(), machine, "-global".into(), poison]
    }
}

/// Facts about the host that a guest's command line depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostFacts {
    /// The rate of the host's time stamp counter, if the guest needs it.
    pub(crate) tsc_rate: Option<Rate>,
    /// Set if only the first CPU starts at boot, and the others start after the guest's kernel has
    /// patched itself: see [`emulator::keeps_stale_code`].
    pub(crate) cpus_later: bool,
}

impl GuestSpec {
    /// Returns QEMU's arguments without the sockets of connections and without the state to load. A
    /// template and its clones have the same devices in the same order, because a state fits no
    /// other machine.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        self.arguments_at(self.host_facts())
    }

    /// Returns the facts about the host that this guest needs.
    pub(crate) fn host_facts(&self) -> HostFacts {
        match (self.image.arch, self.accel) {
            (Arch::X86_64, Accel::Emulation(_)) => HostFacts {
                tsc_rate: tsc::host_rate(),
                cpus_later: emulator::keeps_stale_code(self.image.arch),
            },
            _ => HostFacts { tsc_rate: None, cpus_later: false },
        }
    }

    pub(crate) fn arguments_at(&self, host: HostFacts) -> Vec<OsString> {
        let arch = self.image.arch;
        let machine = match arch {
            Arch::X86_64 => "q35,hpet=off,smbus=off,sata=off",
            Arch::S390x => "s390-ccw-virtio",
        };
        let (accel, cpu) = match self.accel {
            Accel::Kvm => ("kvm".to_owned(), "host"),
            Accel::Emulation(_) => {
                (format!("tcg,thread=multi,tb-size={}", self.translation_mib), "max")
            }
        };
        let bus = arch.bus();
        let mut list: Vec<OsString> = Vec::new();
        let mut option = |name: &str, value: OsString| list.extend([name.into(), value]);
        option("-name", format!("guest={},debug-threads=on", self.name).into());
        option("-machine", machine.into());
        option("-accel", accel.into());
        option("-cpu", cpu.into());
        option("-smp", self.cpus.to_string().into());
        option("-m", format!("{}M", self.memory_mib).into());
        option("-display", "none".into());
        option("-kernel", self.image.kernel.clone().into());
        option("-initrd", self.image.initramfs.clone().into());
        option("-append", self.kernel_command_line(host).into());
        option("-mon", "chardev=qmp,mode=control".into());
        // A guest of the ccw transport waits forever for the acknowledgement of a page report
        // (Linux 6.1, QEMU 7.2, emulated). The reported pages stay out of its free memory: 84 of 90
        // MiB were gone within seconds.
        let balloon = match arch {
            Arch::X86_64 if self.page_reporting => "deflate-on-oom=on,free-page-reporting=on",
            _ => "deflate-on-oom=on,free-page-reporting=off",
        };
        option("-device", format!("virtio-balloon-{bus},id=balloon0,{balloon}").into());
        // Each possible port has two queues. The guest's kernel allocates memory for each queue,
        // and each turn of QEMU's loop polls a descriptor for it. The default is 64 ports.
        option("-device", format!("virtio-serial-{bus},id=serial0,max_ports={PORTS}").into());
        option("-device", serial_port("port", wire::PORT, DAEMON_PORT));
        if self.ctl {
            option("-device", serial_port("ctl", "org.pinhead.ctl.0", "ctl-port"));
        }
        match arch {
            Arch::X86_64 => option("-serial", "chardev:console".into()),
            Arch::S390x => option("-device", "sclpconsole,chardev=console".into()),
        }
        if let Some(net) = &self.net {
            for backend in net.backends() {
                option("-netdev", backend.into());
            }
            // The guest never boots from the network, so the network card's ROM would only waste
            // memory.
            let rom = if arch == Arch::X86_64 { ",romfile=" } else { "" };
            let mac = net.mac().map(|byte| format!("{byte:02x}")).join(":");
            // A clone is alone in its network, so there is no peer to announce it to.
            let device = format!(
                "virtio-net-{bus},id=net0-device,netdev=net0,mac={mac}{rom},guest_announce=off"
            );
            option("-device", device.into());
        }
        if self.reboot {
            if arch == Arch::X86_64 {
                // After a panic the guest's kernel reboots, but first reports the panic to this
                // device. On s390x the kernel stops instead, which also reveals the panic.
                option("-device", "pvpanic-pci".into());
            }
            option("-action", "panic=exit-failure".into());
        } else {
            list.push("-no-reboot".into());
        }
        if let Some(disk) = &self.disk {
            list.extend(disk.arguments(arch));
        }
        list.extend(["-sandbox", SANDBOX, "-nodefaults", "-no-user-config"].map(Into::into));
        list
    }

    fn kernel_command_line(&self, host: HostFacts) -> String {
        let arch = self.image.arch;
        let ours = self.image.first_process == FirstProcess::Ours;
        let mut line = match arch {
            // A guest that boots together with many others may miss the ticks by which its kernel
            // tests the timer. The kernel would panic although nothing is broken.
            Arch::X86_64 => {
                "console=ttyS0 tsc=reliable clocksource=tsc nowatchdog no_timer_check".to_owned()
            }
            Arch::S390x => "console=ttysclp0".to_owned(),
        };
        // Debian's kernel wipes each page that it allocates, also for a balloon. The host would
        // then have to swap in or allocate pages that are dropped at once.
        line.push_str(" audit=0 quiet psi=1 init_on_alloc=0");
        if !(self.reboot && arch == Arch::S390x) {
            line.push_str(" panic=-1");
        }
        if let Accel::Emulation(_) = self.accel {
            // An emulator does not speculate, so mitigations only cost time. Without a skew, all
            // CPUs handle their ticks at once and wait for the same locks. On s390x the kernel
            // ticks 250 times a second. The first two options reduce the share of interrupts on a
            // busy CPU from 5 to 3 %.
            //
            // The emulator also caches translated code by the code's virtual address. With
            // randomised addresses each process is translated again, which costs 4 MiB for a shell
            // of Debian.
            line.push_str(" mitigations=off skew_tick=1 norandmaps");
        }
        // Writing to a string cannot fail.
        if let Some(rate) = host.tsc_rate {
            // The kernel uses this rate instead of measuring the counter. A busy host may keep QEMU
            // from running during such a measurement, and the guest's clock would stay wrong.
            let _ = write!(line, " tsc_early_khz={}", rate.khz());
            if ours {
                // Without this option, each CPU repeats the same measurement, which takes a tenth
                // of a second or more.
                let _ = write!(line, " lpj={}", rate.khz() * 1000 / TICKS_A_SECOND);
            }
        }
        if ours && self.cpus > 1 && host.cpus_later {
            // A kernel can patch its code safely while it runs on one CPU only. The kernel
            // therefore boots with one CPU, and the init process starts the others. `noreplace-smp`
            // keeps the kernel from patching itself for a single CPU and back. When a second CPU
            // starts, the kernel would also patch itself for interrupts to all CPUs.
            // `no_ipi_broadcast` prevents this.
            line.push_str(" maxcpus=1 noreplace-smp no_ipi_broadcast=1 pinhead.cpus=later");
        }
        let _ = write!(line, " pinhead.name={}", self.name);
        if self.ctl {
            line.push_str(" pinhead.ctl=1");
        }
        if let Some(net) = &self.net {
            // The guest's network has no IPv6. With IPv6 on, the guest would send router
            // solicitations forever.
            let _ = write!(line, " ipv6.disable=1 pinhead.ip={}", net.address());
        }
        if self.reboot {
            line.push_str(" pinhead.reboot=1");
        }
        if let Some(disk) = &self.disk {
            line.push_str(disk.kernel_words());
        }
        for word in &self.kernel_args {
            line.push(' ');
            line.push_str(word);
        }
        line
    }
}

fn serial_port(chardev: &str, name: &str, id: &str) -> OsString {
    format!("virtserialport,id={id},bus=serial0.0,chardev={chardev},name={name}").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::Image;
    use crate::{Error, Forward, Net, WhyEmulation};

    fn spec(arch: Arch) -> GuestSpec {
        let (kernel, initramfs) = ("/k,1".into(), "/i".into());
        let image = Image { arch, kernel, initramfs, first_process: FirstProcess::Ours };
        GuestSpec {
            cpus: 2,
            memory_mib: 96,
            translation_mib: 8,
            kernel_args: vec!["pinhead.args=-f,/etc/rules".into()],
            ..GuestSpec::new("g1", image, Accel::Emulation(WhyEmulation::Asked))
        }
    }

    #[test]
    fn command_lines() {
        let words = |arch| {
            let tsc_rate = if arch == Arch::X86_64 { Rate::from_mhz(2596) } else { None };
            let words = spec(arch).arguments_at(HostFacts { tsc_rate, cpus_later: false });
            words.iter().map(|word| word.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let x86 = words(Arch::X86_64).join(" ");
        for part in [
            "-machine q35,hpet=off,smbus=off,sata=off -accel tcg,thread=multi,tb-size=8 -cpu max",
            "-smp 2 -m 96M",
            "virtio-balloon-pci,id=balloon0,deflate-on-oom=on,free-page-reporting=on",
            "chardev=ctl,name=org.pinhead.ctl.0 -serial chardev:console",
            "panic=-1 mitigations=off skew_tick=1 norandmaps tsc_early_khz=2596000 lpj=10384000 ",
            "audit=0 quiet psi=1 init_on_alloc=0 panic=-1",
            "lpj=10384000 pinhead.name=g1 pinhead.ctl=1",
            "pinhead.args=-f,/etc/rules -mon",
        ] {
            assert!(x86.contains(part), "{part} not in {x86}");
        }
        let s390x = words(Arch::S390x).join(" ");
        assert!(s390x.contains("virtio-serial-ccw") && s390x.contains("console=ttysclp0 audit"));
        assert!(s390x.contains("free-page-reporting=off") && s390x.contains(" init_on_alloc=0 "));
        assert!(!s390x.contains("pci") && !s390x.contains("tsc"), "{s390x}");
        assert!(x86.contains("-no-reboot") && !x86.contains("net0"), "{x86}");
    }

    #[test]
    fn only_an_emulated_pc_gets_the_rate_of_its_clock() {
        assert_eq!(spec(Arch::S390x).host_facts().tsc_rate, None);
        let kvm = GuestSpec { accel: Accel::Kvm, ..spec(Arch::X86_64) };
        assert_eq!(kvm.host_facts().tsc_rate, None);
        let unknown = HostFacts { tsc_rate: None, cpus_later: false };
        let unknown = spec(Arch::X86_64).arguments_at(unknown);
        assert!(!unknown.iter().any(|word| word.to_str().unwrap().contains("tsc_early_khz")));
        assert_eq!(spec(Arch::X86_64).host_facts().tsc_rate, tsc::host_rate());
    }

    #[test]
    fn cpus_start_later_where_qemu_keeps_stale_code() {
        let has_words = |spec: &GuestSpec, cpus_later| {
            let words = spec.arguments_at(HostFacts { tsc_rate: None, cpus_later });
            words.iter().any(|word| {
                let word = word.to_str().unwrap();
                word.contains(" maxcpus=1 noreplace-smp no_ipi_broadcast=1 pinhead.cpus=later ")
            })
        };
        let pc = spec(Arch::X86_64);
        assert!(has_words(&pc, true) && !has_words(&pc, false));
        let kvm = GuestSpec { accel: Accel::Kvm, ..pc.clone() };
        assert!(!kvm.host_facts().cpus_later, "nothing is translated");
        let single = GuestSpec { cpus: 1, ..pc.clone() };
        assert!(!has_words(&single, true));
        let mut users = pc;
        users.image.first_process = FirstProcess::Users;
        assert!(!has_words(&users, true), "its init process would not start them");
    }

    #[test]
    fn a_network_and_a_reboot_are_words() {
        let mut spec = spec(Arch::X86_64);
        let forwards = vec![Forward { host_port: 18003, guest_port: 80 }];
        spec.net = Some(Net { forwards, ..Net::new(3) });
        spec.reboot = true;
        let words = spec.arguments();
        let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        let line = words.join(" ");
        for part in [
            "hostfwd=tcp:127.0.0.1:18003-10.1.0.3:80 ",
            "netdev=net0,mac=52:54:00:00:00:03,romfile=,guest_announce=off ",
            "ipv6.disable=1 pinhead.ip=10.1.0.3 pinhead.reboot=1",
            "-device pvpanic-pci -action panic=exit-failure",
        ] {
            assert!(line.contains(part), "{part} not in {line}");
        }
        assert!(!line.contains("-no-reboot"), "{line}");
    }

    #[test]
    fn values_that_would_change_a_command_line_are_refused() {
        let check = |change: fn(&mut GuestSpec)| {
            let mut spec = spec(Arch::X86_64);
            change(&mut spec);
            assert!(matches!(spec.start(), Err(Error::Spec { .. })), "{spec:?}");
        };
        check(|spec| spec.name = "a,debug-threads=on".into());
        check(|spec| spec.name = "a b".into());
        check(|spec| spec.name = "a".repeat(64));
        check(|spec| spec.name.clear());
        check(|spec| spec.cpus = 0);
        check(|spec| spec.memory_mib = 0);
        check(|spec| {
            spec.net = Some(Net::new(u32::MAX));
        });
        check(|spec| spec.kernel_args.push("init=/bin/sh rw".into()));
    }
}
