//! Errors in making an image.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::images::Arch;

/// An error in making an image.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("Cannot {action} {path}")]
    File {
        /// Failed action, as a verb: "read", "create".
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("No directory for the cache: set PINHEAD_CACHE, XDG_CACHE_HOME or HOME")]
    NoCacheDirectory,
    /// Another user can change the cache, and thus also the programs that the cache's owner runs.
    #[error("Cannot use the cache {root}; set PINHEAD_CACHE to use another directory")]
    Cache { root: PathBuf, source: Box<Error> },
    #[error("{path} is not safe to use: {reason}")]
    NotOurs { path: PathBuf, reason: String },
    #[error("{path} is not a record of packages: {reason}")]
    Record { path: PathBuf, reason: String },
    /// A downloaded file that differs from the signed lists.
    #[error("Package {line}: {reason}")]
    Package { line: String, reason: String },
    #[error("No refreshable part of the cache is called {name:?}: see `pinhead cache list`")]
    UnknownPart { name: String },
    #[error("{tool} is not installed: {hint}")]
    ToolMissing { tool: String, hint: String },
    #[error("{command} failed ({status}): {}", .stderr.trim_end())]
    ToolFailed { command: String, status: ExitStatus, stderr: String },
    #[error("Cannot start {program}")]
    Spawn { program: String, source: io::Error },
    /// apt has no Debian source, so a guest's packages cannot be fetched by name.
    #[error(
        "apt has no Debian package source (searched {}); guests are built from Debian packages",
        shown(.searched)
    )]
    NoDebianSources { searched: Vec<PathBuf> },
    #[error("apt knows no package {package} for {}{}", .arch.debian(), refresh(.update_stderr))]
    PackageUnknown {
        package: String,
        arch: Arch,
        /// Errors of apt while it refreshed its lists; empty without errors.
        update_stderr: String,
    },
    #[error("Packages unpacked in {root} lack {missing}")]
    PackageContent { root: PathBuf, missing: String },
    #[error("Kernel module {module}: {reason}")]
    Module { module: PathBuf, reason: String },
    #[error("Image {image}: {reason}")]
    Rootfs { image: &'static str, reason: String },
    #[error("Disk image {image}: {reason}")]
    DiskImage { image: PathBuf, reason: String },
    #[error("Guest {guest:?}: {reason}")]
    Disk { guest: String, reason: String },
}

fn shown(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}

fn refresh(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        said => format!("; apt could not refresh the lists of packages: {said}"),
    }
}

/// Attaches the action and the path to a file error.
pub trait FileContext<T> {
    /// Attaches `action`, which is a verb that fits "Cannot ... PATH".
    fn file(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T, Error>;
}

impl<T> FileContext<T> for io::Result<T> {
    fn file(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T, Error> {
        self.map_err(|source| Error::File { action, path: path.into(), source })
    }
}
