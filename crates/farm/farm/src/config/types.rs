//! Contents of a checked `FARM.toml`.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use base::Bytes;
use settings::{
    Section, Table, checked, list, number, one_of, path, size, tables, time, truth, words,
};
use vm::images::{Arch, HostCache};

use super::kinds::{mib, swap};

/// Maximum number of guests of a farm. With more guests, the process runs out of file descriptors
/// before the host runs out of memory.
pub(super) const GUESTS_MAX: u32 = 2_000;
/// Accepted memory sizes in MiB. A Debian kernel with a shell does not boot with less than the
/// minimum, and no guest here needs more than the maximum.
const MEMORY_MIB: RangeInclusive<u64> = 48..=64 * 1024;
/// Maximum length of a `command` line in bytes. The line passes through the guest's shell, which
/// limits the length of a line.
const COMMAND_MAX: usize = 2_000;
pub(super) const PORTS_HELP: &str = "write a list of tables: [{ guest = 80, host = 18000 }]";
pub(super) const LINKS_HELP: &str = "write a list of tables: [{ to = \"db\", port = 5432 }]";

/// A farm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Farm {
    /// Name of the farm.
    pub name: String,
    /// Limits of all guests together.
    pub limits: Limits,
    /// Classes of guests.
    pub classes: Vec<Class>,
}

settings::table! {
    /// Keys above all tables.
    pub struct Top in "" {
        /// name of the farm
        name: Option<String> = words, else "the file's name";
    }
}

settings::table! {
    /// Limits on the host resources of all guests together, and the places for their memory.
    #[derive(Default)]
    pub struct Limits in "limits" {
        /// memory limit for all guests together
        memory: Option<Bytes> = size, else "none";
        /// size of a compressed swap device (zram) on the host
        zram: Option<Bytes> = size, else "none";
        /// limit on pages read back from `zram` a second, which makes zram as slow as a disk
        zram_reads: Option<u32> = number(1..=1_000_000_u32), else "no limit";
        /// size of a swap file on the host, used after zram
        swap: Option<Bytes> = size, else "none";
        /// true: the host merges equal pages
        ksm: bool = truth, "false";
    }
}

settings::table! {
    /// A class of equal guests.
    pub struct Class in "class" {
        /// name of the class; its guests are named web1, web2, and so on
        name: String = words, else "needed";
        /// number of guests
        count: u32 = number(1..=GUESTS_MAX), "1";
        /// `x86_64` or `s390x`
        arch: Arch = one_of("architecture", Arch::ALL, Arch::name), "x86_64";
        /// image of the guests, from the table below
        image: Builtin = one_of("image", Builtin::ALL, Builtin::name), "tiny";
        /// a kernel of your own, instead of `image`
        kernel: Option<PathBuf> = path, else "none";
        /// the initramfs for your kernel
        initramfs: Option<PathBuf> = path, else "none";
        /// a disk image, .qcow2, .raw or .img; writes go to an overlay of each guest
        disk: Option<PathBuf> = path, else "none";
        /// `writeback` uses the host's page cache for disks, `none` bypasses it
        disk_cache: HostCache = one_of("cache", HostCache::ALL, HostCache::name), "writeback";
        /// limit on disk reads a second of a guest
        disk_reads: Option<u32> = number(1..=1_000_000_u32), else "no limit";
        /// true: one guest boots, and the others resume from its state; needs the daemon
        template: bool = truth, "false";
        /// true: each clone copies the template's memory instead of sharing it copy-on-write
        copy: bool = truth, "false";
        /// CPUs, 1 to 64
        cpus: u32 = number(1..=64_u32), "1";
        /// upper limit of the guest's memory
        memory_mib("memory"): u64 = checked(
            mib,
            |mib| MEMORY_MIB.contains(mib),
            "the memory is too small or too large for a guest",
            "use a size from \"48 MiB\" to \"64 GiB\"",
        ), "128 MiB";
        /// lower limit of the guest's memory
        memory_min_mib("memory_min"): Option<u64> = mib, else "15%, at least 64 MiB";
        /// true: free page reporting
        page_reporting: bool = truth, "true";
        /// weight of a guest against other guests
        shares: u32 = number(1..=1_000_000_u32), "100";
        /// the daemon's rules: a preset or a file
        rules: Option<String> = words, else "no rules";
        /// false: guests without the daemon
        daemon: bool = truth, "true";
        /// port forwards from the host's 127.0.0.1
        ports: Vec<Port> = tables(PORTS_HELP), else "none";
        /// ports of other classes that guests of this class can reach
        links: Vec<ClassLink> = tables(LINKS_HELP), else "none";
        /// swap inside the guest, as "zram:64 MiB"
        zram_mib("swap"): u64 = swap, else "none";
        /// heap size of the application in debian-app and debian-combo
        heap_mib("heap"): Option<u64> = mib, else "16 MiB";
        /// a guest that was idle for this time is parked: stopped, and its memory paged out
        park_ms("park"): Option<u64> = time, else "never";
        /// place of a parked guest's memory: `memory` (paged out) or `disk` (its QEMU ends)
        park_to: ParkTo = one_of("place", ParkTo::ALL, ParkTo::name), "memory";
        /// a parked guest is woken after this time at the latest
        park_at_most_ms("park_at_most"): Option<u64> = time, else "never";
        /// true: a guest is parked even while clients are connected; data from them wakes it
        park_with_connections: bool = truth, "false";
        /// extra arguments for the guest's kernel
        args: Vec<String> = checked(
            list,
            |args| !args.iter().any(|word| word.contains(is_space)),
            "a word for the kernel contains white space",
            "write each word as a separate text: [\"a=1\", \"b\"]",
        ), else "none";
        /// a command line for the guest's shell, run once the guest is ready
        command: Option<String> = checked(
            words,
            |line| !line.contains(['\n', '\r']) && line.len() <= COMMAND_MAX,
            "the command must be one line of at most 2000 bytes",
            "join commands with `;` or `&&`, or put them into a file of the guest",
        ), else "none";
    }
}

settings::table! {
    /// A port of each guest of a class, reachable on the host's 127.0.0.1.
    #[derive(Copy)]
    pub struct Port in "class.ports" {
        /// the port in the guest
        guest: u16 = number(1..=u16::MAX), else "needed";
        /// the first guest's port on the host; guest n uses this port plus n - 1
        host: u16 = number(1..=u16::MAX), else "needed";
        /// readiness check of a guest: http, postgres, none
        probe: Probe = one_of("probe", Probe::ALL, Probe::name), else "by the port";
    }
}

settings::table! {
    /// A port of another class, reached by each guest of a class under that class's name.
    pub struct ClassLink in "class.links" {
        /// the other class
        to: String = words, else "needed";
        /// the port of the other class's guests
        port: u16 = number(1..=u16::MAX), else "needed";
    }
}

/// All tables. The first table has the keys above all other tables.
pub const SECTIONS: &[Section] =
    &[Top::SECTION, Limits::SECTION, Class::SECTION, Port::SECTION, ClassLink::SECTION];

fn is_space(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

/// Source that a guest starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// An image built by pinhead.
    Builtin(Builtin),
    /// Files of the user.
    Files {
        /// A kernel.
        kernel: &'a Path,
        /// The archive that the kernel starts with.
        initramfs: &'a Path,
        /// A disk image.
        disk: Option<&'a Path>,
    },
}

base::named! {
    /// The images that pinhead builds from Debian's packages, by their names in a `FARM.toml`.
    pub enum Builtin {
        /// A kernel and a shell, in memory.
        Tiny = "tiny",
        /// A kernel, a shell, and nginx, which serves one page, in memory.
        Web = "web",
        /// nginx on a disk with Debian.
        DebianNginx = "debian-nginx",
        /// An application server on a disk with Debian.
        DebianApp = "debian-app",
        /// PostgreSQL on a disk with Debian.
        DebianPostgres = "debian-postgres",
        /// nginx, an application server and PostgreSQL in one guest, on a disk with Debian.
        DebianCombo = "debian-combo",
    }
}

base::named! {
    /// Place of a parked guest's memory.
    #[derive(Default)]
    pub enum ParkTo {
        /// QEMU stays, stopped, and the guest's memory is paged out.
        #[default]
        Memory = "memory",
        /// Memory that differs from the template is in a file, and QEMU ends.
        Disk = "disk",
    }
}

impl Builtin {
    /// Returns the ports of the image's servers; `None` for an image without servers.
    pub fn ports(self) -> Option<&'static [u16]> {
        match self {
            Builtin::Tiny => None,
            Builtin::Web | Builtin::DebianNginx => Some(&[80]),
            Builtin::DebianApp => Some(&[8000]),
            Builtin::DebianPostgres => Some(&[5432]),
            Builtin::DebianCombo => Some(&[80, 5432, 8000]),
        }
    }

    /// Returns true if the image runs an application with a heap.
    pub fn has_heap(self) -> bool {
        matches!(self, Builtin::DebianApp | Builtin::DebianCombo)
    }
}

base::named! {
    /// Probe that shows if a service responds. An accepted connection proves nothing: QEMU accepts
    /// connections on the host even if no server listens in the guest.
    #[derive(Default)]
    pub enum Probe {
        /// Any response to a request for `/`.
        Http = "http",
        /// PostgreSQL's response to a request for encryption.
        Postgres = "postgres",
        /// No probe.
        #[default]
        None = "none",
    }
}

impl Class {
    /// Returns the source that the guests start from.
    pub fn source(&self) -> Source<'_> {
        match (&self.kernel, &self.initramfs) {
            (Some(kernel), Some(initramfs)) => {
                Source::Files { kernel, initramfs, disk: self.disk.as_deref() }
            }
            _ => Source::Builtin(self.image),
        }
    }

    /// Returns the name of the guest of this number, counted from 1.
    pub fn guest_name(&self, number: u32) -> String {
        format!("{}{number}", self.name)
    }

    /// Returns a guest's port on the host. Guests are counted from 1.
    pub fn host_port(&self, port: &Port, number: u32) -> u16 {
        let offset = u16::try_from(number.saturating_sub(1)).unwrap_or(u16::MAX);
        port.host.saturating_add(offset)
    }
}

impl Farm {
    /// Returns the farm with relative paths resolved against a directory. A rules file may be a
    /// preset's name, so only a name with a slash or a dot counts as a path.
    #[must_use]
    pub fn below(mut self, dir: &Path) -> Farm {
        for class in &mut self.classes {
            let files = [&mut class.kernel, &mut class.initramfs, &mut class.disk];
            for path in files.into_iter().flatten() {
                *path = dir.join(&*path);
            }
            if let Some(rules) = class.rules.as_mut().filter(|rules| rules.contains(['/', '.'])) {
                *rules = dir.join(&*rules).to_string_lossy().into_owned();
            }
        }
        self
    }

    /// Keeps only the classes of these names, in the file's order. The error is a name that no
    /// class has.
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

    /// Returns the number of guests.
    pub fn guests(&self) -> u32 {
        self.classes.iter().map(|class| class.count).sum()
    }
}
