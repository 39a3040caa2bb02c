//! What a `FARM.toml` says, after it was checked.

use std::path::{Path, PathBuf};

use counters::Bytes;
use images::Arch;

/// A farm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Farm {
    /// Its name.
    pub name: String,
    /// What all its guests may use together.
    pub limits: Limits,
    /// Its guests.
    pub classes: Vec<Class>,
}

/// What all guests together may use of the host, and where their memory goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory of the host.
    pub memory: Option<Bytes>,
    /// Swap in compressed memory of the host.
    pub zram: Option<Bytes>,
    /// A swap file behind it.
    pub swap: Option<Bytes>,
    /// Whether equal pages are shared.
    pub ksm: bool,
}

/// Guests that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name, which ends in no digit: with a guest's number behind it, it is the guest's.
    pub name: String,
    /// How many guests.
    pub count: u32,
    /// Their architecture.
    pub arch: Arch,
    /// What they start from.
    pub source: Source,
    /// Whether one of them boots and the others go on from its state.
    pub template: bool,
    /// Whether each of those has a copy of its memory from the start, and shares nothing.
    pub copy: bool,
    /// Whether its guests tell the host which of their memory is free.
    pub page_reporting: bool,
    /// CPUs of each.
    pub cpus: u32,
    /// Memory of each at most, in MiB.
    pub memory_mib: u64,
    /// What each keeps whatever it asks for, in MiB, if that was said.
    pub memory_min_mib: Option<u64>,
    /// Its guests' weight against others.
    pub shares: u32,
    /// The daemon's rules: a file, or the name of a preset. `None`: rules that never act.
    pub rules: Option<String>,
    /// Whether its guests have the daemon.
    pub daemon: bool,
    /// Ports that the host reaches.
    pub ports: Vec<Port>,
    /// Swap in the guest's own compressed memory, in MiB; 0 is none.
    pub zram_mib: u64,
    /// What its application keeps in memory, in MiB, if that was said.
    pub heap_mib: Option<u64>,
    /// More words for the kernel.
    pub args: Vec<String>,
    /// A line for the shell of each guest when it is ready.
    pub command: Option<String>,
}

/// What a guest starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An image that pinhead makes.
    Builtin(Builtin),
    /// Files of the user's own.
    Files {
        /// A kernel.
        kernel: PathBuf,
        /// The archive that it starts with.
        initramfs: PathBuf,
        /// A disk image.
        disk: Option<PathBuf>,
    },
}

/// The images that pinhead makes from Debian's packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Builtin {
    /// A kernel and a shell, in memory.
    Tiny,
    /// The same with nginx, which serves one page.
    Web,
    /// nginx on a disk with Debian.
    DebianNginx,
    /// An application server on a disk with Debian.
    DebianApp,
    /// PostgreSQL on a disk with Debian.
    DebianPostgres,
    /// All three in one guest.
    DebianCombo,
}

impl Builtin {
    /// All of them.
    pub const ALL: [Builtin; 6] = [
        Builtin::Tiny,
        Builtin::Web,
        Builtin::DebianNginx,
        Builtin::DebianApp,
        Builtin::DebianPostgres,
        Builtin::DebianCombo,
    ];

    /// Its name in a `FARM.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Builtin::Tiny => "tiny",
            Builtin::Web => "web",
            Builtin::DebianNginx => "debian-nginx",
            Builtin::DebianApp => "debian-app",
            Builtin::DebianPostgres => "debian-postgres",
            Builtin::DebianCombo => "debian-combo",
        }
    }

    /// Whether it is an image of a disk.
    pub fn is_disk(self) -> bool {
        !matches!(self, Builtin::Tiny | Builtin::Web)
    }

    /// Whether an application with a heap runs in it.
    pub fn has_heap(self) -> bool {
        matches!(self, Builtin::DebianApp | Builtin::DebianCombo)
    }
}

/// A port of each guest of a class, reached on the host's 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// The port in the guest.
    pub guest: u16,
    /// The host's port for the class's first guest; the next guest has the next port.
    pub host: u16,
    /// How a guest is asked whether it is ready.
    pub probe: Probe,
}

/// How one sees that a service answers. That its port can be connected to says nothing: QEMU
/// accepts on the host whatever is in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// By any answer to a request for `/`.
    Http,
    /// By PostgreSQL's answer to whether it encrypts.
    Postgres,
    /// Not at all.
    None,
}

impl Class {
    /// The name of the guest of this number, from 1.
    pub fn guest_name(&self, number: u32) -> String {
        format!("{}{number}", self.name)
    }

    /// A guest's port on the host; guests are counted from 1.
    pub fn host_port(&self, port: &Port, number: u32) -> u16 {
        let offset = u16::try_from(number.saturating_sub(1)).unwrap_or(u16::MAX);
        port.host.saturating_add(offset)
    }
}

impl Farm {
    /// The same, with relative paths taken from a directory. A rules file may be a preset's
    /// name: only what has a slash or a dot in it is taken for a path.
    #[must_use]
    pub fn below(mut self, dir: &Path) -> Farm {
        for class in &mut self.classes {
            if let Source::Files { kernel, initramfs, disk } = &mut class.source {
                for path in [kernel, initramfs].into_iter().chain(disk) {
                    *path = dir.join(&*path);
                }
            }
            if let Some(rules) = class.rules.as_mut().filter(|rules| rules.contains(['/', '.'])) {
                *rules = dir.join(&*rules).to_string_lossy().into_owned();
            }
        }
        self
    }

    /// Only the classes of these names, in the file's order. The error is a name that no class has.
    pub fn only(mut self, names: &[String]) -> Result<Farm, String> {
        if names.is_empty() {
            return Ok(self);
        }
        let is_there = |name: &&String| self.classes.iter().any(|class| class.name == **name);
        if let Some(name) = names.iter().find(|name| !is_there(name)) {
            return Err(name.clone());
        }
        self.classes.retain(|class| names.contains(&class.name));
        Ok(self)
    }

    /// How many guests it has.
    pub fn guests(&self) -> u32 {
        self.classes.iter().map(|class| class.count).sum()
    }
}
