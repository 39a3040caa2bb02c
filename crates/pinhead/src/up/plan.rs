//! Plan of a farm: guests that are ready to start, made from a `FARM.toml`, with their images,
//! templates, ports and rules.

use super::progress::{Progress, Step};
use crate::cache::warning;
use crate::tell::own_name;
use crate::{Error, UpError, check, rulesfile};
use base::Bytes;
use farm::Password;
use farm::config::{Builtin, Class, Farm, Limits, ParkTo, Source};
use farm::fleet::{Daemon, MemberConfig, ParkRule};
use farm::links::Link;
use farm::service::{Occupant, ProbedPort};
use manager::control::ServedPort;
use rules::Machine;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vm::images::rootfs::Software;
use vm::images::{
    self, Arch, Cache, Disk, DiskFormat, FirstProcess, GuestFile, Image, ImageSpec, Writes,
    check_file, create_dir, time_of_day, web_files,
};
use vm::{Accel, Clones, Deadline, Forward, GuestSpec, Net, Template, first_host_port, probe_kvm};

/// Maximum number of guests with a large buffer each, for all of their translated code.
const ROOMY_GUESTS: u32 = 8;
/// Kernel argument that locks the kernel down, and thereby disables tracing. The files of tracing
/// have ten thousand inodes, a tenth of a small web server's memory.
const WITHOUT_TRACING: &str = "lockdown=confidentiality";
/// Timeout for a template to boot, settle and be saved. Under emulation on a busy machine that
/// takes long.
const TEMPLATE_PATIENCE: Duration = Duration::from_secs(600);
/// Rules for a class without rules. The daemon then reports the guest's state, and changes nothing.
const HOLD: &str = "UPDATE=\"60\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\nHOTPLUG=\"0\"\nHOTUNPLUG=\"0\"\n";

/// Guests, ready to be started.
#[derive(Debug)]
pub struct Plan {
    /// The farm's name, if the guests belong to a farm's file.
    pub name: Option<String>,
    /// Limits on the host resources of all guests together.
    pub limits: Limits,
    /// Configuration of each guest.
    pub members: Vec<MemberConfig>,
    /// Further properties of each guest, in the same order.
    pub occupants: Vec<Occupant>,
    /// Links between the guests.
    pub links: Vec<Link>,
    /// True if any guest starts from a template.
    pub has_clones: bool,
    /// The guests' addresses, as text for the user.
    pub reach: String,
    /// A warning for the user.
    pub warning: Option<String>,
}

/// Makes everything that the farm's guests need.
pub fn prepare(farm: Farm, progress: &mut Progress) -> Result<Plan, Error> {
    check_ports(&farm, first_host_port())?;
    let cache = Cache::from_environment()?;
    let password = Password::random().map_err(|e| Error::step("Cannot get a random number", e))?;
    let mut maker = Maker { cache, progress, farm: &farm, password, used: BTreeSet::new() };
    let mut plan = Plan {
        reach: how_to_reach(&farm, &own_name()),
        name: Some(farm.name.clone()),
        limits: farm.limits.clone(),
        members: Vec::new(),
        occupants: Vec::new(),
        links: farm.links(),
        has_clones: false,
        warning: None,
    };
    for class in 0..farm.classes.len() {
        maker.class(class, &mut plan)?;
    }
    plan.warning = warning(&maker.cache, &maker.used, time_of_day().as_secs());
    Ok(plan)
}

/// Rejects host ports below the first unprivileged port. Only root may listen on such a port, so
/// QEMU would exit at its start.
pub(super) fn check_ports(farm: &Farm, first: u16) -> Result<(), Error> {
    let ports = farm.classes.iter().flat_map(|class| class.ports.iter().map(move |at| (class, at)));
    match ports.into_iter().find(|(_, port)| port.host < first) {
        None => Ok(()),
        Some((class, port)) => {
            Err(UpError::Port { class: class.name.clone(), port: port.host, first }.into())
        }
    }
}

struct Maker<'a> {
    cache: Cache,
    progress: &'a mut Progress,
    farm: &'a Farm,
    password: Password,
    /// Parts of the cache that the guests are made from.
    used: BTreeSet<PathBuf>,
}

pub(super) struct Root {
    image: Image,
    disk: Option<Disk>,
    words: Vec<String>,
}

impl Maker<'_> {
    /// Plans the guests of the class at this index in the farm.
    fn class(&mut self, place: usize, plan: &mut Plan) -> Result<(), Error> {
        let farm = self.farm;
        let class = &farm.classes[place];
        let root = self.root(class)?;
        let accel = probe_kvm(class.arch);
        let first = farm.first_number(place);
        let password = farm.knows_password(class).then(|| self.password.clone());
        let specs: Vec<GuestSpec> =
            (0..class.count).map(|at| self.spec(class, &root, accel, at + 1, first + at)).collect();
        let state = match (class.template, specs.first()) {
            (true, Some(spec)) => Some(self.template(class, spec)?),
            _ => None,
        };
        plan.has_clones |= state.is_some();
        let park_dir = (class.park_to == ParkTo::Disk).then(|| self.park_dir()).transpose()?;
        for (mut spec, number) in specs.into_iter().zip(1..) {
            spec.restore.clone_from(&state);
            let (floor, daemon, park) = (floor(class), daemon(class), park(class));
            let park_file = park_dir.as_ref().map(|dir| dir.join(format!("{}.park", spec.name)));
            plan.members.push(MemberConfig { spec, floor, daemon, park, park_file });
            let served = |port: &farm::config::Port| ProbedPort {
                at: ServedPort { guest: port.guest, host: class.host_port(port, number) },
                probe: port.probe,
            };
            plan.occupants.push(Occupant {
                class: class.name.clone(),
                ports: class.ports.iter().map(served).collect(),
                command: class.command.clone(),
                shares: class.shares,
                password: password.clone(),
            });
        }
        Ok(())
    }

    fn spec(
        &self,
        class: &Class,
        root: &Root,
        accel: Accel,
        number: u32,
        in_farm: u32,
    ) -> GuestSpec {
        let mut kernel_args = root.words.clone();
        if class.source() == Source::Builtin(Builtin::Web) {
            kernel_args.push(WITHOUT_TRACING.to_owned());
        }
        if class.zram_mib > 0 {
            kernel_args.push(format!("pinhead.zram_mib={}", class.zram_mib));
        }
        if let Some(heap_mib) = class.heap_mib {
            kernel_args.push(format!("pinhead.heap_mib={heap_mib}"));
        }
        let neighbours = self.farm.neighbours(class);
        if !neighbours.is_empty() {
            let hosts: Vec<String> =
                neighbours.iter().map(|(name, address)| format!("{name}/{address}")).collect();
            kernel_args.push(format!("pinhead.hosts={}", hosts.join(",")));
        }
        kernel_args.extend(class.args.iter().cloned());
        let forwards = class.ports.iter().map(|port| Forward {
            host_port: class.host_port(port, number),
            guest_port: port.guest,
        });
        // A guest without connections in either direction has fewer wake-ups without a network.
        let linked = self.farm.is_linked(class);
        let suspends = class.park_to == ParkTo::Disk;
        let is_alone =
            !linked && class.ports.is_empty() && class.source() == Source::Builtin(Builtin::Tiny);
        GuestSpec {
            name: class.guest_name(number),
            accel,
            cpus: class.cpus,
            memory_mib: class.memory_mib,
            translation_mib: translation_mib(class.source(), self.farm.guests()),
            image: root.image.clone(),
            kernel_args,
            ctl: true,
            run_dir: None,
            net: (!is_alone).then(|| Net {
                forwards: forwards.collect(),
                linked,
                ..Net::new(in_farm)
            }),
            disk: root.disk.clone(),
            restore: None,
            reboot: true,
            page_reporting: class.page_reporting,
            suspends,
        }
    }

    /// Creates and returns the directory of this farm's guests that are parked on disk.
    fn park_dir(&self) -> Result<PathBuf, Error> {
        let dir = self.cache.root().join("parked").join(&self.farm.name);
        create_dir(&dir)?;
        Ok(dir)
    }

    fn root(&mut self, class: &Class) -> Result<Root, Error> {
        let builtin = match class.source() {
            Source::Files { kernel, initramfs, disk } => {
                return files(class, kernel, initramfs, disk);
            }
            Source::Builtin(builtin) => builtin,
        };
        let mut files = match (class.daemon, &class.rules) {
            (false, _) => Vec::new(),
            (true, None) => daemon_files(HOLD.as_bytes(), "host"),
            (true, Some(name)) => daemon_files(&checked_rules(name)?, "host"),
        };
        let daemon = class.daemon.then(|| find_daemon(class.arch)).transpose()?;
        let name = builtin.name();
        let making = format!("image {name} for {}", class.name);
        self.progress.report(Step::Making { making: making.clone(), permille: None, bytes: None });
        if builtin == Builtin::Web {
            files.extend(web_files(&self.cache, class.arch)?);
            self.used.insert(self.cache.packages_of(class.arch, images::WEB_SET));
        }
        self.used.insert(self.cache.packages_of(class.arch, ""));
        let progress = &mut *self.progress;
        let spec = ImageSpec { arch: class.arch, daemon, files };
        let image = spec.build_with(&self.cache, &mut |at| progress.fetch(&making, at))?;
        let Some(software) = Software::from_name(name) else {
            return Ok(Root { image, disk: None, words: Vec::new() });
        };
        let progress = &mut *self.progress;
        let mut report = |at: images::rootfs::Progress| {
            let making = format!("image {name}: {}", at.what);
            progress.report(Step::Making { making, permille: Some(at.permille), bytes: None });
        };
        let rootfs = software.build(&self.cache, &mut report)?;
        self.used.insert(rootfs.clone());
        let words = vec![disk_mode(class).1];
        Ok(Root { image, disk: Some(disk_of(class, rootfs)), words })
    }

    fn template(&mut self, class: &Class, spec: &GuestSpec) -> Result<Template, Error> {
        let making = format!("booting the template of {}", class.name);
        self.progress.report(Step::Making { making, permille: None, bytes: None });
        let deadline = Deadline::after(TEMPLATE_PATIENCE);
        let clones = if class.copy { Clones::Copy } else { Clones::Share };
        Ok(Template::make(spec, clones, &self.cache, deadline)?)
    }
}

/// Returns the disk's write mode and its kernel argument. The whole state of a guest with a
/// template must be in its memory.
fn disk_mode(class: &Class) -> (Writes, String) {
    match class.template {
        true => (Writes::Layer, "pinhead.root=layer".to_owned()),
        false => (Writes::Temporary, "pinhead.root=rw".to_owned()),
    }
}

fn disk_of(class: &Class, path: PathBuf) -> Disk {
    let format = match path.extension().is_some_and(|end| end == "qcow2") {
        true => DiskFormat::Qcow2,
        false => DiskFormat::Raw,
    };
    Disk {
        writes: disk_mode(class).0,
        cache: class.disk_cache,
        reads: class.disk_reads,
        ..Disk::temporary(path, format)
    }
}

pub(super) fn files(
    class: &Class,
    kernel: &Path,
    initramfs: &Path,
    disk: Option<&Path>,
) -> Result<Root, Error> {
    for path in [kernel, initramfs] {
        check_file(path)?;
    }
    let disk = disk.map(|path| disk_of(class, path.to_path_buf()));
    // An error in the disk is reported here, before other guests have started.
    if let Some(disk) = &disk {
        disk.prepare(&class.name)?;
    }
    let (kernel, initramfs) = (kernel.to_path_buf(), initramfs.to_path_buf());
    let image = Image { arch: class.arch, kernel, initramfs, first_process: FirstProcess::Users };
    Ok(Root { image, disk, words: Vec::new() })
}

fn floor(class: &Class) -> Bytes {
    let default = || agent::floor(Bytes::mib(class.memory_mib));
    class.memory_min_mib.map_or_else(default, Bytes::mib)
}

fn park(class: &Class) -> ParkRule {
    ParkRule {
        after_ms: class.park_ms,
        at_most_ms: class.park_at_most_ms,
        with_connections: class.park_with_connections,
    }
}

fn daemon(class: &Class) -> Daemon {
    match (class.source(), class.daemon) {
        (_, true) => Daemon::Expected,
        (Source::Builtin(_), false) => Daemon::Missing,
        (Source::Files { .. }, false) => Daemon::Foreign,
    }
}

pub(super) fn daemon_files(rules: &[u8], pace: &str) -> Vec<GuestFile> {
    let words = format!("-f -c /etc/pinhead.conf --pace {pace}\n");
    vec![GuestFile::text("/etc/pinhead.conf", rules), GuestFile::text("/etc/pinheadd.args", words)]
}

/// Reads a rules file or preset. Returns an error if the rules have errors.
pub(super) fn checked_rules(name: &str) -> Result<Vec<u8>, Error> {
    let rules = rulesfile::read(Path::new(name))?;
    let found = check::text(&rules.text, &Machine::default());
    if rules::has_errors(&found) {
        return Err(UpError::Rules { faults: check::errors(rules, found) }.into());
    }
    Ok(rules.text)
}

/// Formats the addresses of a farm's guests, and commands of this program, as text for the user.
fn how_to_reach(farm: &Farm, program: &str) -> String {
    let mut out = String::new();
    for class in &farm.classes {
        let names = match class.count {
            1 => class.guest_name(1),
            count => format!("{} to {}", class.guest_name(1), class.guest_name(count)),
        };
        let ports: Vec<String> = class.ports.iter().map(|port| address(class, port)).collect();
        let arch = match class.arch {
            Arch::X86_64 => String::new(),
            arch => format!(" ({})", arch.name()),
        };
        let ports = if ports.is_empty() { "no ports".to_owned() } else { ports.join(", ") };
        out.push_str(&format!("  {names}{arch}: {ports}\n"));
    }
    let guest = farm.classes.first().map_or_else(String::new, |class| class.guest_name(1));
    let farm = &farm.name;
    for command in [
        format!("ps --farm {farm}"),
        format!("console {guest}"),
        format!("exec {guest} CMD"),
        format!("logs {guest}"),
        format!("down {farm}"),
    ] {
        out.push_str(&format!("  {program} {command}\n"));
    }
    out
}

fn address(class: &Class, port: &farm::config::Port) -> String {
    let scheme = match port.probe {
        farm::config::Probe::Http => "http://",
        _ => "",
    };
    let last = match class.count {
        1 => String::new(),
        count => format!(" to {}", class.host_port(port, count)),
    };
    format!("{scheme}127.0.0.1:{}{last} (port {})", port.host, port.guest)
}

/// Returns the size of the buffer for translated code, in MiB. A buffer larger than needed wastes
/// memory, because it is never shared.
///
/// A web server uses 8 MiB for its pages, but 14 MiB until it has started and answered its first
/// request. With 12 MiB, code is discarded during the start, and the start of a clone costs a
/// quarter more. If a manager queries the guest's daemon, more than 16 MiB are needed. With less,
/// all code of the first page after an idle time must be translated again.
///
/// Commands of a shell take 16 MiB. Debian's servers filled 32 MiB two or three times in 40 s of
/// load, and pages were a second late each time. With 64 MiB that never happened.
pub(super) fn translation_mib(source: Source<'_>, guests: u32) -> u32 {
    match source {
        Source::Builtin(Builtin::Web | Builtin::Tiny) if guests > ROOMY_GUESTS => 20,
        Source::Builtin(Builtin::Web | Builtin::Tiny) => 32,
        _ => 64,
    }
}

/// Finds the static daemon for an architecture. The daemon is next to this program, as `make build`
/// and packages install it, or the environment names the daemon's directory.
pub fn find_daemon(arch: Arch) -> Result<PathBuf, Error> {
    let below = |dir: PathBuf| dir.join(arch.name()).join("pinheadd");
    let mut looked = Vec::new();
    if let Some(dir) = std::env::var_os("PINHEAD_GUEST_DIR") {
        looked.push(below(dir.into()));
    }
    if let Ok(program) = std::env::current_exe() {
        // For target/release/pinhead the directory is target/guest, and for usr/bin/pinhead it is
        // usr/lib/pinhead/guest.
        let places = ["guest", "lib/pinhead/guest"];
        let in_dir = |dir: &Path| places.map(|place| below(dir.join(place)));
        looked.extend(program.ancestors().skip(1).take(3).flat_map(in_dir));
    }
    looked.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let places: Vec<String> = looked.iter().map(|p| p.display().to_string()).collect();
        let target = match arch {
            Arch::X86_64 => "build",
            Arch::S390x => "s390x",
        };
        UpError::NoDaemon { arch: arch.name(), places: places.join(", "), target }.into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_with_more_code_get_larger_buffers() {
        let room = |builtin, guests| translation_mib(Source::Builtin(builtin), guests);
        assert_eq!([room(Builtin::Web, 8), room(Builtin::Web, 9)], [32, 20]);
        assert_eq!([room(Builtin::DebianCombo, 1), room(Builtin::DebianCombo, 100)], [64, 64]);
    }

    #[test]
    fn rules_that_change_nothing_have_no_errors() {
        let found = check::text(HOLD.as_bytes(), &Machine::default());
        assert!(!rules::has_errors(&found), "{found:?}");
        assert!(checked_rules("default").is_ok());
        assert!(checked_rules("no-such-preset").is_err());
    }

    #[test]
    fn finding_03_a_port_that_only_root_may_have_is_refused() {
        let text = "[[class]]\nname = 'db'\n[[class]]\nname = 'web'\n\
                    ports = [{ guest = 443, host = 1024 }, { guest = 80, host = 1023 }]\n";
        let farm = farm::config::parse(text, "f").unwrap();
        assert!(check_ports(&farm, 80).is_ok(), "a host may have another limit");
        assert_eq!(
            check_ports(&farm, 1024).unwrap_err().to_string(),
            "Class `web`: QEMU has no permission for ports below 1024, such as `host = 1023` in \
             its `ports`; use a higher port"
        );
    }

    #[test]
    fn addresses_of_guests_are_listed_by_class() {
        let text = "[[class]]\nname = 'web'\ncount = 3\nports = [{ guest = 80, host = 18000 }]\n\
                    [[class]]\nname = 'db'\n";
        let farm = farm::config::parse(text, "f").unwrap();
        let text = how_to_reach(&farm, "./pinhead");
        assert!(text.contains("web1 to web3: http://127.0.0.1:18000 to 18002 (port 80)"), "{text}");
        assert!(text.contains("db1: no ports") && text.contains("  ./pinhead down f\n"), "{text}");
    }
}
