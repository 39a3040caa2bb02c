//! Specification that a guest is started from.

use std::path::PathBuf;

use crate::images::{Disk, Image};

use crate::saved::Template;
use crate::{Accel, Error, Net};

/// Path of the balloon in QEMU's object tree, used to read its statistics.
pub const BALLOON_PATH: &str = "/machine/peripheral/balloon0";

/// QEMU's name of the daemon's port in events.
pub const DAEMON_PORT: &str = "daemon-port";

/// Maximum length of a guest's name, in bytes. The name is also the host name, for which Linux has
/// 64 bytes with the terminating zero.
pub const NAME_BYTES_MAX: usize = 63;

/// Specification that a guest is started from.
#[derive(Clone, Debug)]
pub struct GuestSpec {
    /// Name of the guest: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Way in which the guest's instructions are executed; see [`crate::probe_kvm`].
    pub accel: Accel,
    /// Number of CPUs, including those that are added later.
    pub cpus: u32,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// Size of the buffer for translated code under emulation, in MiB. QEMU uses the buffer as
    /// needed, and empties it when it is full. A size of 16 MiB is nearly as good as 32 MiB. With 8
    /// MiB instead of 32 MiB, the start of a process in the guest takes ten times as long. A page
    /// of the guest's web server takes three times as long.
    pub translation_mib: u32,
    /// Image to boot from, which also determines the architecture.
    pub image: Image,
    /// Additional arguments for the kernel's command line.
    pub kernel_args: Vec<String>,
    /// Set if the guest runs commands from the control socket.
    pub ctl: bool,
    /// Directory for sockets that other processes may connect to. `NAME.qmp` is a second monitor.
    /// `NAME.port` is the daemon's port, for one client at a time. Any user that may enter the
    /// directory controls the guest.
    pub run_dir: Option<PathBuf>,
    /// Network of the guest, if any.
    pub net: Option<Net>,
    /// Disk of the guest, if any.
    pub disk: Option<Disk>,
    /// The state to load instead of booting: see [`crate::Template`]. The state contains the
    /// template's identity, which the guest's daemon then replaces.
    pub restore: Option<Template>,
    /// Set if QEMU continues when the guest reboots. Otherwise QEMU exits.
    pub reboot: bool,
    /// Set if the guest reports its free memory to the host. The flag has no effect on s390x, where
    /// the guest would wait forever for the answer.
    pub page_reporting: bool,
    /// Set if QEMU must be able to write the state of its devices on request: see
    /// [`crate::DeviceFile`].
    pub suspends: bool,
}

impl GuestSpec {
    /// Returns a minimal guest: one CPU, 128 MiB, a control port, and no network.
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

    /// Returns the path of the guest's second monitor.
    pub fn qmp_path(&self) -> Option<PathBuf> {
        Some(self.run_dir.as_ref()?.join(format!("{}.qmp", self.name)))
    }

    /// Returns the path of the daemon's port.
    pub fn port_path(&self) -> Option<PathBuf> {
        Some(self.run_dir.as_ref()?.join(format!("{}.port", self.name)))
    }

    /// Rejects values that would change the meaning of QEMU's or the kernel's command line.
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
            return wrong("a guest needs at least one CPU and 1 MiB of memory");
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

/// Returns the line that a guest of this name prints on its console when it is up.
pub fn up_marker(name: &str) -> String {
    format!("pinhead: {name} is up")
}
