//! The manager's settings, from a file of TOML.
//!
//! ```text
//!   text ─► settings::Reader ─► tables (a row a key) ─► build (filled up) ─► Settings
//!                └────────── every fault with its line and column ──────────┘
//! ```
//!
//! A file is taken whole or not at all, and all its faults are reported at once. [`parse`] is a
//! function of the text alone; [`load`] reads the file, and the one of the shadow policy.

mod build;
mod kinds;
mod settings;
mod zvm;

pub use ::settings::{Fault as ConfigError, LoadError, Share};
pub use settings::{
    Class, ControlSettings, GroupMay, HostSettings, JournalSettings, KsmMode, Libvirt, LibvirtUri,
    MetricsSettings, MonitorSettings, PageOutMode, PageOutSettings, PolicySettings, Settings,
    Sources, UserPart, UserSettings,
};
pub use zvm::{ZvmMode, ZvmSettings};

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use counters::Bytes;
use hypervisor::Owner;

/// The file that is read where none is named.
pub const DEFAULT_PATH: &str = "/etc/pinhead/host.toml";

/// What the defaults depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Whether the manager runs as root.
    pub is_root: bool,
    /// `$XDG_RUNTIME_DIR`: where a user's libvirt is.
    pub runtime_dir: Option<PathBuf>,
    /// Directory of this user's sockets: see [`own_dir`].
    pub own_dir: Option<PathBuf>,
    /// Reason for which there is none, and what helps.
    pub no_own_dir: Option<String>,
    /// `$XDG_STATE_HOME`: what a user's programs keep.
    pub state_dir: Option<PathBuf>,
    /// The host's memory, to compare parts with sizes.
    pub host_total: Option<Bytes>,
}

impl Place {
    /// That of this process.
    pub fn of_this_process(host_total: Option<Bytes>) -> Place {
        let dir = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let dir = |name: &str| dir(name).filter(|path| path.is_absolute());
        let own_dir = own_dir();
        Place {
            is_root: rustix::process::geteuid().is_root(),
            runtime_dir: dir("XDG_RUNTIME_DIR"),
            no_own_dir: own_dir.as_ref().err().map(ToString::to_string),
            own_dir: own_dir.ok(),
            state_dir: dir("XDG_STATE_HOME")
                .or_else(|| dir("HOME").map(|home| home.join(".local/state"))),
            host_total,
        }
    }

    /// The journal: root's below /var/lib, others' in their own directory for what programs keep.
    pub fn journal(&self) -> Option<PathBuf> {
        match self.is_root {
            true => Some("/var/lib/pinhead/journal.db".into()),
            false => self.state_dir.as_ref().map(|dir| dir.join("pinhead/journal.db")),
        }
    }
}

/// Directory of this user's sockets: root's below /run, others' where their session has it, or else
/// one of their own in the directory for temporary files. That one is made if it is not there.
/// Another user may have made it first, which is an error.
pub fn own_dir() -> io::Result<PathBuf> {
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match session.filter(|dir| dir.is_absolute() && dir.is_dir()) {
        _ if rustix::process::geteuid().is_root() => Ok("/run/pinhead".into()),
        Some(dir) => Ok(dir.join("pinhead")),
        None => temporary(&std::env::temp_dir()),
    }
}

fn temporary(below: &Path) -> io::Result<PathBuf> {
    let dir = below.join(format!("pinhead-{}", rustix::process::geteuid().as_raw()));
    let no_place = |kind, fault: String, advice: &str| {
        let text = format!(
            "XDG_RUNTIME_DIR is not set to a directory, and {} {fault}: {advice}set \
             XDG_RUNTIME_DIR to a directory of this user's alone",
            dir.display()
        );
        io::Error::new(kind, text)
    };
    let cannot = |e: io::Error| no_place(e.kind(), format!("cannot be made ({e})"), "");
    match DirBuilder::new().mode(0o700).create(&dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(cannot(error)),
        _ => {}
    }
    let refused =
        |fault: String, advice: &str| Err(no_place(io::ErrorKind::PermissionDenied, fault, advice));
    // A link may be somebody else's, and lead anywhere.
    let found = std::fs::symlink_metadata(&dir).map_err(cannot)?;
    match Owner::of_directory(&dir) {
        // In a directory for all, nobody but its owner can remove it.
        _ if Owner(found.uid()) != Owner::own() => {
            refused(format!("belongs to user {}", found.uid()), "")
        }
        Some(owner) if owner == Owner::own() && !found.is_symlink() => Ok(dir),
        _ => refused("is not this user's alone".to_owned(), "remove it, or "),
    }
}

/// What was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The file in force; none where everything is as by default.
    pub path: Option<PathBuf>,
    /// What holds.
    pub settings: Settings,
    /// The second policy, of which `[host]`, `[policy]` and the classes count.
    pub shadow: Option<Settings>,
}

/// Reads a file's text. Paths in it are as they were typed, see [`Settings::below`].
pub fn parse(text: &str, place: &Place) -> Result<Settings, Vec<ConfigError>> {
    let mut reader = ::settings::Reader::new(text);
    let tree = reader.tree(settings::SECTIONS);
    let settings = build::build(&mut reader, &tree, place);
    reader.finish(settings)
}

/// Reads a file and that of its shadow policy. Without a path the default one is read, and if
/// that is not there, everything is as by default.
pub fn load(path: Option<&Path>, place: &Place) -> Result<Loaded, LoadError> {
    load_or(path, Path::new(DEFAULT_PATH), place)
}

fn load_or(path: Option<&Path>, default: &Path, place: &Place) -> Result<Loaded, LoadError> {
    let (text, is_there) = match ::settings::load(path.unwrap_or(default)) {
        Err(LoadError::Read { source, .. })
            if path.is_none() && source.kind() == io::ErrorKind::NotFound =>
        {
            (String::new(), false)
        }
        text => (text?, true),
    };
    let path = path.unwrap_or(default);
    let in_force = is_there.then(|| path.to_path_buf());
    let mut settings = of_file(path, &text, place)?;
    settings.zvm.read_notify()?;
    let Some(shadow) = settings.policy.shadow.as_deref() else {
        return Ok(Loaded { path: in_force, settings, shadow: None });
    };
    let shadow_settings = of_file(shadow, &::settings::load(shadow)?, place)?;
    if shadow_settings.policy.shadow.is_some() {
        return Err(LoadError::NestedShadow { path: shadow.to_path_buf() });
    }
    Ok(Loaded { path: in_force, settings, shadow: Some(shadow_settings) })
}

fn of_file(path: &Path, text: &str, place: &Place) -> Result<Settings, LoadError> {
    let dir = path.parent().unwrap_or(Path::new(""));
    match parse(text, place) {
        Ok(settings) => Ok(settings.below(dir)),
        Err(faults) => Err(LoadError::Wrong { path: path.to_path_buf(), faults }),
    }
}

#[cfg(test)]
mod tests;
