//! The start of a manager: its settings, sources, socket, journal and lease.

use crate::Error;
use crate::clock::Clock;
use crate::config::{
    self, Libvirt, LibvirtUri, LoadError, Loaded, MonitorSettings, Place, Settings, ZvmSettings,
};
use crate::control::{Bounds, Server};
use crate::keeper::spare_manager;
use crate::ksm::Ksm;
use crate::lease::Lease;
use crate::machine::MachineReader;
use crate::memory::engines;
use crate::monitor::{Monitor, Recording, Sink};
use crate::pageout::PageOutWorker;
use crate::run::{Options, Parts};
use crate::scrape::pushing;
use crate::users::Users;
use base::Bytes;
use hypervisor::{Hypervisor, IdSource, QmpSource, Trust, Zvm, ZvmOptions};
use policy::rivals::Kind;
use procfs::Root;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::{Path, PathBuf};
use store::{Journal, Writer};

/// Possible paths of libvirt's system socket. A host has only one of them.
const LIBVIRT_SOCKETS: [&str; 2] = ["/run/libvirt/virtqemud-sock", "/run/libvirt/libvirt-sock"];

/// Returns the parts of a manager from the given file of settings, or the default file, and
/// messages to the operator.
pub(crate) fn parts(
    config_path: Option<PathBuf>,
    options: Options,
) -> Result<(Parts, Vec<String>), Error> {
    let clock = Clock::start();
    take_descriptors();
    let (reader, place, loaded) = load(config_path.as_deref(), options)?;
    let options = options.with(&loaded.settings);
    if !options.dry_run {
        spare_manager(&Root::default());
    }
    let total = place.host_total.unwrap_or(Bytes::ZERO);
    let settings = &loaded.settings;
    let total = settings.zvm.host_total().unwrap_or(total);
    let control = control(settings, &place)?;
    let users = Users::find(&settings.sources.users, Path::new("/etc/passwd"), total)?;
    let (sources, mut notices) = sources(settings, &users.trust(), &place, options.for_farms);
    let (journal, trouble) = journal(settings);
    notices.extend(trouble);
    notices.extend(other_rules(settings));
    // KSM merges pages of this kernel's processes, which are not z/VM's guests.
    let leaves = options.dry_run || settings.zvm.is_on();
    let mode = if leaves { config::KsmMode::Leave } else { settings.ksm };
    let ksm = Ksm::open(Path::new("/"), mode);
    let reserve = settings.arbiter(total).reserve;
    // A farm takes back its guests when the manager's connection closes, for whatever reason.
    let lease = match options.dry_run || options.for_farms {
        true => Lease::none(),
        false => Lease::start(reserve, ksm.saved(), control.path(), clock.ms())
            .map_err(|source| Error::Keeper { source })?,
    };
    // Threads start after the keeper, which is a separate process and does not need threads.
    let page_out = match options.dry_run {
        true => PageOutWorker::none("a dry run moves nothing"),
        false => PageOutWorker::start(Path::new("/")),
    };
    let monitor = monitor(settings, &mut notices);
    let parts = Parts {
        clock,
        options,
        place,
        config_path,
        loaded,
        users,
        sources,
        reader,
        journal,
        control,
        lease,
        ksm,
        page_out,
        monitor,
    };
    Ok((parts, notices))
}

/// Reads the settings in force with these options.
pub(crate) fn in_force(
    path: Option<&Path>,
    place: &Place,
    options: Options,
) -> Result<Loaded, LoadError> {
    let mut loaded = match options.for_farms && !place.is_root {
        // All users of a host share one settings file and the paths in it. A user's farms therefore
        // get the default settings.
        true => config::defaults(place)?,
        false => config::load(path, place)?,
    };
    if options.for_farms {
        let farms = place.own_dir.as_ref().map(|dir| format!("{}/up/*/*.qmp", dir.display()));
        let settings = &mut loaded.settings;
        settings.sources = config::Sources {
            qmp: farms.into_iter().collect(),
            libvirt: Libvirt::Uris(Vec::new()),
            users: Vec::new(),
        };
        settings.ksm = config::KsmMode::Leave;
        // `act` is for guests that somebody else started.
        settings.policy.act = true;
        settings.zvm.mode = config::ZvmMode::Off;
    }
    Ok(loaded)
}

fn load(
    config_path: Option<&Path>,
    options: Options,
) -> Result<(MachineReader, Place, Loaded), Error> {
    let mut reader = MachineReader::open(&Root::default()).map_err(Error::Machine)?;
    let total = reader.read().map_err(Error::Machine)?.total;
    let place = Place { budget: options.budget, ..Place::of_this_process(Some(total)) };
    let loaded = in_force(config_path, &place, options).map_err(Error::Settings)?;
    Ok((reader, place, loaded))
}

/// Loads the settings and the files that they name, as a manager does at its start. Nothing is
/// started or changed.
pub fn check(config_path: Option<&Path>, options: Options) -> Result<Loaded, Error> {
    let (_, place, loaded) = load(config_path, options)?;
    let total = place.host_total.unwrap_or(Bytes::ZERO);
    Users::find(&loaded.settings.sources.users, Path::new("/etc/passwd"), total)?;
    engines(&loaded, false, total)?;
    Ok(loaded)
}

/// Returns a message if the rules of another manager move memory.
pub(crate) fn other_rules(settings: &Settings) -> Option<String> {
    let kind = settings.policy.kind;
    let is_other = kind != Kind::Pinhead;
    is_other.then(|| format!("pinhead's own policy is not in use: [policy] kind = \"{kind}\""))
}

/// Returns the new settings that take effect only after a restart.
pub(crate) fn needs_restart(old: &Settings, new: &Settings) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |changed: bool, what: &str| {
        if changed {
            notes.push(format!("{what} takes effect when the manager starts again"));
        }
    };
    note(old.sources != new.sources, "[sources]");
    note(old.zvm != new.zvm, "[zvm]");
    note(old.control != new.control, "[control]");
    note(old.policy.act != new.policy.act, "[policy] act");
    note(old.ksm != new.ksm, "[ksm]");
    note(old.journal.path != new.journal.path, "[journal] path");
    note(old.monitor != new.monitor, "[monitor]");
    notes
}

/// Raises the limit of descriptors to its maximum. A guest needs descriptors for its monitor, its
/// port, four files of its process, and one file for each virtual CPU. The usual 1,024 descriptors
/// are enough for a hundred guests. The keeper inherits the limit, and needs one descriptor for
/// each guest.
fn take_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If the limit cannot be raised, only fewer guests can be managed.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

fn control(settings: &Settings, place: &Place) -> Result<Server, Error> {
    let Some(path) = &settings.control.socket else {
        return Err(Error::NoPlace { why: place.no_own_dir.clone().unwrap_or_default() });
    };
    let server = Server::open(path, settings.control.group.as_deref(), Bounds::MANAGER)
        .map_err(Error::Control)?;
    Ok(server.group_may(settings.control.group_may))
}

/// Returns the sources of guests, and the reasons for unavailable sources.
fn sources(
    settings: &Settings,
    trust: &Trust,
    place: &Place,
    for_farms: bool,
) -> (Vec<Box<dyn Hypervisor>>, Vec<String>) {
    let ids = IdSource::new();
    let mut sources: Vec<Box<dyn Hypervisor>> = Vec::new();
    let mut notices = Vec::new();
    if !settings.sources.qmp.is_empty() {
        match QmpSource::new(&settings.sources.qmp, trust.clone(), ids.clone()) {
            Ok(source) if for_farms => sources.push(Box::new(source.leaving_rules_only())),
            Ok(source) => sources.push(Box::new(source)),
            Err(error) => notices.push(error.to_string()),
        }
    }
    if settings.zvm.is_on() {
        sources.push(Box::new(Zvm::new(zvm_options(&settings.zvm), ids.clone())));
    }
    let uris: Vec<LibvirtUri> = match &settings.sources.libvirt {
        Libvirt::Uris(uris) => uris.clone(),
        Libvirt::Auto => {
            let is_there = LIBVIRT_SOCKETS.iter().any(|path| Path::new(path).exists());
            let uri = LibvirtUri { uri: "qemu:///system".into(), socket: None };
            if is_there { vec![uri] } else { Vec::new() }
        }
    };
    for LibvirtUri { uri, socket } in uris {
        let runtime_dir = place.runtime_dir.as_deref();
        match hypervisor::Libvirt::of_uri(&uri, socket.as_deref(), runtime_dir, ids.clone()) {
            Some(libvirt) => sources.push(Box::new(libvirt.trusting(trust.clone()))),
            None => notices.push(format!(
                "{uri} is not used: set XDG_RUNTIME_DIR, the parent directory of its socket"
            )),
        }
    }
    (sources, notices)
}

fn zvm_options(zvm: &ZvmSettings) -> ZvmOptions {
    ZvmOptions {
        counters: zvm.counters.clone(),
        program: zvm.program.clone(),
        managed: zvm.managed().to_vec(),
        own: own_user(),
        memory: zvm.memory,
        interval_ms: zvm.interval_ms,
    }
}

/// Returns the z/VM user that runs this machine, if the hypervisor directly above is z/VM.
fn own_user() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sysinfo").ok()?;
    let level = zmon::sysinfo::levels(&text).pop()?;
    level.name.filter(|_| level.what.starts_with("z/VM"))
}

/// Returns the monitor. If the monitor cannot start, the manager continues without it.
fn monitor(settings: &Settings, notices: &mut Vec<String>) -> Option<Monitor> {
    let sink = sink(&settings.monitor, notices);
    let (sink, trouble) = pushing(&settings.metrics, sink);
    notices.extend(trouble);
    match Monitor::start(Path::new("/"), sink) {
        Ok(monitor) => Some(monitor),
        Err(error) => {
            notices.push(format!("The monitor cannot be started, so nothing is recorded: {error}"));
            None
        }
    }
}

/// Returns the recordings of moments, if recording is on.
fn sink(settings: &MonitorSettings, notices: &mut Vec<String>) -> Option<Box<dyn Sink>> {
    if !settings.record {
        return None;
    }
    let Some(dir) = &settings.dir else {
        let text = "Nothing is recorded, because no directory is set: set `dir` in [monitor]";
        notices.push(text.to_owned());
        return None;
    };
    Some(Box::new(Recording::new(dir, settings.keep())))
}

fn journal(settings: &Settings) -> (Writer, Option<String>) {
    let in_memory = |why: String| {
        let writer = Journal::in_memory().map(Writer::to);
        // Without a usable file, decisions wait in a bounded queue and are lost.
        (writer.unwrap_or_else(|_| Writer::new(Path::new("/dev/null/journal"))), Some(why))
    };
    let Some(path) = &settings.journal.path else {
        return in_memory(
            "The journal is kept in memory only, because no file is set: set `path` in [journal]"
                .into(),
        );
    };
    if let Some(dir) = path.parent()
        && let Err(error) = std::fs::create_dir_all(dir)
    {
        return in_memory(format!(
            "{} cannot be created ({error}): the journal is kept in memory only",
            dir.display()
        ));
    }
    (Writer::new(path), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_limit_is_raised_to_its_maximum() {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let few = maximum.map_or(1024, |maximum| maximum.min(1024));
        setrlimit(Resource::Nofile, Rlimit { current: Some(few), maximum }).unwrap();
        take_descriptors();
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
    }

    #[test]
    fn manager_of_farms_has_only_the_farms_of_its_user() {
        let dir = procfs::testing::Tree::create();
        let file = dir.path().join("host.toml");
        let text = "[control]\nsocket = \"/named\"\n[policy]\nact = false\n\
                    [sources]\nqmp = [\"/run/vms/*.qmp\"]\n";
        std::fs::write(&file, text).unwrap();
        let loaded = |is_root: bool, for_farms: bool| {
            let place = Place { is_root, own_dir: Some("/own".into()), ..Place::default() };
            let options = Options { for_farms, ..Options::default() };
            in_force(Some(&file), &place, options).unwrap()
        };
        for is_root in [false, true] {
            let settings = loaded(is_root, true).settings;
            assert_eq!(settings.sources.qmp, ["/own/up/*/*.qmp"]);
            assert_eq!(settings.sources.libvirt, Libvirt::Uris(Vec::new()));
            assert_eq!(settings.ksm, config::KsmMode::Leave);
            assert!(settings.policy.act, "the setting is for a `pinhead host`");
        }
        let named = Some(PathBuf::from("/named"));
        assert_eq!(loaded(true, true).settings.control.socket, named);
        assert_ne!(loaded(false, true).settings.control.socket, named, "the file is root's");
        assert_eq!(loaded(false, true).path, None);
        assert_eq!(loaded(false, false).settings.control.socket, named);
    }
}
