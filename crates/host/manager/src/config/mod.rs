//! The manager's settings, from a file of TOML.
//!
//! ```text
//!   text ─► settings::Reader ─► tables (a row a key) ─► build (filled up) ─► Settings
//!                └────────── every fault with its line and column ──────────┘
//! ```
//!
//! A file is read completely or not at all, and all of its errors are reported together. [`parse`]
//! does no I/O. [`load`] reads the file, and the file of the shadow policy if there is one.

mod build;
mod kinds;
mod place;
mod settings;
mod zvm;

pub use ::settings::{Fault as ConfigError, LoadError, Share};
pub use kinds::{GroupMay, KsmMode, Libvirt, LibvirtUri, PageOutMode};
pub use place::{Place, own_dir};
pub use settings::{
    Class, ControlSettings, HostSettings, JournalSettings, MetricsSettings, MonitorSettings,
    NO_BUDGET, PageOutSettings, PolicySettings, SECTIONS, Settings, Sources, UserPart,
    UserSettings, is_no_budget,
};
pub use zvm::{ZvmMode, ZvmSettings};

use std::io;
use std::path::{Path, PathBuf};

/// Default path of the settings.
pub const DEFAULT_PATH: &str = "/etc/pinhead/host.toml";

/// Loaded settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Path of the file in force; `None` if all settings are defaults.
    pub path: Option<PathBuf>,
    /// Settings in force.
    pub settings: Settings,
    /// Settings of the shadow policy. Only its `[host]`, `[policy]` and classes apply.
    pub shadow: Option<Settings>,
}

/// Reads a file's text. Relative paths stay relative, see [`Settings::below`].
pub fn parse(text: &str, place: &Place) -> Result<Settings, Vec<ConfigError>> {
    let mut reader = ::settings::Reader::new(text);
    let tree = reader.tree(SECTIONS);
    let settings = build::build(&mut reader, &tree, place);
    reader.finish(settings)
}

/// Returns the defaults, without reading the default file.
pub fn defaults(place: &Place) -> Result<Loaded, LoadError> {
    let settings = of_file(Path::new(DEFAULT_PATH), "", place)?;
    Ok(Loaded { path: None, settings, shadow: None })
}

/// Reads a file and the file of its shadow policy. Without a path the default file is read. If the
/// default file does not exist, all settings are defaults.
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
