//! The specification of a guest, from which it is started.

use std::path::PathBuf;

use images::{Disk, Image};

use crate::saved::Template;
use crate::{Accel, Error, Net};

/// Where the balloon is in QEMU's object tree, for its statistics.
pub const BALLOON_PATH: &str = "/machine/peripheral/balloon0";

/// What QEMU calls the daemon's port in its events.
pub const DAEMON_PORT: &str = "daemon-port";

/// A guest's name is also its host name, for which Linux has room for 64 bytes with the zero.
pub const NAME_BYTES_MAX: usize = 63;

/// How to start a guest.
#[derive(Clone, Debug)]
pub struct GuestSpec {
    /// Its name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// How its instructions are executed; see [`crate::probe_kvm`].
    pub accel: Accel,
    /// How many CPUs it has at most.
    pub cpus: u32,
    /// How much memory it has at most, in MiB.
    pub memory_mib: u64,
    /// The room for translated code under emulation, in MiB. QEMU holds what of it was used, and
    /// throws all away when it is full: in 8 a process that a guest starts costs ten times what
    /// it costs in 32, and a page of its web server three times; 16 is nearly as good as 32.
    pub translation_mib: u32,
    /// What it boots from, which also says its architecture.
    pub image: Image,
    /// More words for the kernel's command line.
    pub kernel_args: Vec<String>,
    /// Whether the guest runs commands from the control socket.
    pub ctl: bool,
    /// A directory for sockets that others may connect to: `NAME.qmp`, a second monitor, and
    /// `NAME.port`, the daemon's port, one client at a time. Any user who may enter the
    /// directory controls the guest.
    pub run_dir: Option<PathBuf>,
    /// Its network, if it has one.
    pub net: Option<Net>,
    /// Its disk, if it has one.
    pub disk: Option<Disk>,
    /// The state that it goes on from instead of booting: see [`crate::Template`]. It still needs
    /// the template's identity replaced by its own, which its daemon does.
    pub restore: Option<Template>,
    /// Whether the guest starts again when it reboots, instead of ending its QEMU.
    pub reboot: bool,
    /// Whether the guest reports its free memory to the host. Not on s390x, where it would
    /// wait forever for the answer.
    pub page_reporting: bool,
    /// Whether its QEMU is to write the state of its devices when it is asked: see
    /// [`crate::DeviceFile`].
    pub suspends: bool,
}

impl GuestSpec {
    /// The plainest guest: one CPU, 128 MiB, a control port, and nothing to reach others by.
    pub fn new(name: impl Into<String>, image: Image, accel: Accel) -> GuestSpec {
        GuestSpec {
            name: name.into(),
            accel,
            cpus: 1,
            memory_mib: 128,
            translation_mib: 32,
            image,
            kernel_args: Vec::new(),
            ctl: true,
            run_dir: None,
            net: None,
            disk: None,
            restore: None,
            reboot: false,
            page_reporting: true,
            suspends: false,
        }
    }

    /// Where others find the guest's second monitor.
    pub fn qmp_path(&self) -> Option<PathBuf> {
        Some(self.run_dir.as_ref()?.join(format!("{}.qmp", self.name)))
    }

    /// Where others find the daemon's port.
    pub fn port_path(&self) -> Option<PathBuf> {
        Some(self.run_dir.as_ref()?.join(format!("{}.port", self.name)))
    }

    /// Refuses what would mean something else on QEMU's or the kernel's command line.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong =
            |reason: &str| Err(Error::Spec { guest: self.name.clone(), reason: reason.to_owned() });
        let in_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty()
            || self.name.len() > NAME_BYTES_MAX
            || !self.name.chars().all(in_name)
        {
            return wrong("a name has 1 to 63 letters, digits, '-', '_' or '.'");
        }
        if self.cpus == 0 || self.memory_mib == 0 {
            return wrong("it needs a CPU and some memory");
        }
        if let Some(fault) = self.net.as_ref().and_then(Net::fault) {
            return wrong(&fault);
        }
        let in_word = |c: char| !c.is_whitespace() && !c.is_control();
        if !self.kernel_args.iter().all(|word| word.chars().all(in_word)) {
            return wrong("a kernel argument holds white space or control characters");
        }
        Ok(())
    }
}

/// What a guest of this name says on its console when it is up.
pub fn up_marker(name: &str) -> String {
    format!("pinhead: {name} is up")
}
