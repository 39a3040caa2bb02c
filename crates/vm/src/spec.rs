//! The specification of a guest, from which it is started.

use std::path::PathBuf;

use images::{Disk, Image};

use crate::saved::Template;
use crate::{Accel, Error, Net};

/// The balloon's path in QEMU's object tree, for its statistics.
pub const BALLOON_PATH: &str = "/machine/peripheral/balloon0";

/// QEMU's name of the daemon's port in events.
pub const DAEMON_PORT: &str = "daemon-port";

/// Length limit of a guest's name. It is also the host name, for which Linux has 64 bytes with the
/// terminating zero.
pub const NAME_BYTES_MAX: usize = 63;

/// The description from which a guest is started.
#[derive(Clone, Debug)]
pub struct GuestSpec {
    /// Its name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The way its instructions are executed; see [`crate::probe_kvm`].
    pub accel: Accel,
    /// Number of CPUs, including those that are added later.
    pub cpus: u32,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// Size of the buffer for translated code under emulation, in MiB. QEMU keeps the used part,
    /// and empties the buffer when it is full. With 8, starting a process in the guest costs ten
    /// times as much as with 32, and a page of its web server three times as much. 16 is nearly as
    /// good as 32.
    pub translation_mib: u32,
    /// The image to boot from, which also determines its architecture.
    pub image: Image,
    /// More words for the kernel's command line.
    pub kernel_args: Vec<String>,
    /// Set if the guest runs commands from the control socket.
    pub ctl: bool,
    /// A directory for sockets that other processes may connect to: `NAME.qmp`, a second monitor,
    /// and `NAME.port`, the daemon's port, one client at a time. Any user that may enter the
    /// directory controls the guest.
    pub run_dir: Option<PathBuf>,
    /// Its network, if it has one.
    pub net: Option<Net>,
    /// Its disk, if it has one.
    pub disk: Option<Disk>,
    /// The state to load instead of booting: see [`crate::Template`]. It contains the template's
    /// identity, which the guest's daemon then replaces.
    pub restore: Option<Template>,
    /// Set if the guest starts again when it reboots, instead of ending its QEMU.
    pub reboot: bool,
    /// Set if the guest reports its free memory to the host. Not on s390x, where the guest would
    /// wait forever for the answer.
    pub page_reporting: bool,
    /// Set if QEMU is to write the state of its devices on request: see [`crate::DeviceFile`].
    pub suspends: bool,
}

impl GuestSpec {
    /// Returns the plainest guest: one CPU, 128 MiB, a control port, and no connection to others.
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

    /// Refuses values that would mean something else on QEMU's or the kernel's command line.
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

/// Returns the line that a guest of this name prints on its console when it is up.
pub fn up_marker(name: &str) -> String {
    format!("pinhead: {name} is up")
}
