//! What can go wrong between a package's name and a running guest.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::Arch;

/// Everything that the farm can fail at.
#[derive(Debug)]
pub enum Error {
    /// A file or directory could not be used.
    File {
        /// What was tried, as a verb: "read", "create".
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Neither variable that leads to a cache directory is set.
    NoCacheDirectory,
    /// A program that is needed is not installed.
    ToolMissing {
        /// The program.
        tool: String,
        /// What to install, or what it is needed for.
        hint: String,
    },
    /// A program ran and failed.
    ToolFailed {
        /// The program and its arguments.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it said on standard error.
        stderr: String,
    },
    /// apt has no Debian source, so a guest's packages cannot be had by name.
    NoDebianSources {
        /// The files and directories that were searched.
        searched: Vec<PathBuf>,
    },
    /// apt knows no such package.
    PackageUnknown {
        /// The package.
        package: String,
        /// For which architecture.
        arch: Arch,
        /// What apt said while it refreshed its lists; empty if that went well.
        update_stderr: String,
    },
    /// A package lacks something that a guest needs.
    PackageContent {
        /// Where it was unpacked.
        root: PathBuf,
        /// What is missing.
        missing: String,
    },
    /// A kernel module is not what it should be.
    Module {
        /// The module's file, or its name where there is none.
        module: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A root file system cannot be made here.
    Rootfs {
        /// The image's name.
        image: &'static str,
        /// Why not, and what would help.
        reason: String,
    },
    /// A guest was described in a way that cannot be started.
    Spec {
        /// The guest's name.
        guest: String,
        /// What is wrong.
        reason: String,
    },
    /// A guest's state could not be saved, or another guest could not go on from it.
    Template {
        /// The guest.
        guest: String,
        /// What went wrong.
        reason: String,
    },
    /// A tier of the guests' memory cannot be had, or cannot be put back.
    Tier {
        /// Which one: "cgroup", "zram", "swap file", "KSM", or their "record".
        tier: &'static str,
        /// What is wrong, and what would help.
        what: String,
        /// What the system said, where it was asked.
        source: Option<io::Error>,
    },
    /// A process could not be started.
    Spawn {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// QEMU ended when it should not have.
    QemuExited {
        /// The guest's name.
        guest: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it said on standard error.
        stderr: String,
    },
    /// A guest did not come up.
    NotUp {
        /// The guest's name.
        guest: String,
        /// Its console's last words.
        console: String,
        /// Why it was not waited for any longer.
        source: Box<Error>,
    },
    /// A connection to a guest or its QEMU failed.
    Channel {
        /// Which one: "qmp", "console", "ctl".
        channel: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A guest's socket could not be made.
    Socket {
        /// Where it was to be.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A farm that runs refused what it was asked, or is not what it should be.
    Service {
        /// The socket where it was asked.
        socket: PathBuf,
        /// What it said, or what is wrong.
        reason: String,
    },
    /// Something did not happen in time.
    Deadline {
        /// What was waited for.
        waiting_for: String,
    },
    /// QEMU spoke QMP wrongly.
    Qmp(qmp::Error),
    /// QEMU refused a command.
    QmpRefused {
        /// The command.
        command: &'static str,
        /// What QEMU said.
        desc: String,
    },
    /// A command for the control channel cannot be sent or its answer cannot be read.
    Ctl {
        /// The command.
        command: String,
        /// What is wrong.
        reason: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File { action, path, .. } => write!(f, "Cannot {action} {}", path.display()),
            Error::NoCacheDirectory => {
                f.write_str("No place for the cache: set PINHEAD_CACHE, XDG_CACHE_HOME or HOME")
            }
            Error::ToolMissing { tool, hint } => write!(f, "{tool} is not installed: {hint}"),
            Error::ToolFailed { command, status, stderr } => {
                write!(f, "{command} failed ({status}): {}", stderr.trim_end())
            }
            Error::NoDebianSources { searched } => {
                let searched: Vec<_> =
                    searched.iter().map(|path| path.display().to_string()).collect();
                write!(
                    f,
                    "apt has no Debian package source (searched {}); guests are made from \
                     Debian packages",
                    searched.join(", ")
                )
            }
            Error::PackageUnknown { package, arch, update_stderr } => {
                write!(f, "apt knows no package {package} for {}", arch.debian())?;
                if !update_stderr.trim().is_empty() {
                    write!(f, "; refreshing its lists said: {}", update_stderr.trim())?;
                }
                Ok(())
            }
            Error::PackageContent { root, missing } => {
                write!(f, "Packages unpacked in {} lack {missing}", root.display())
            }
            Error::Module { module, reason } => {
                write!(f, "Kernel module {}: {reason}", module.display())
            }
            Error::Rootfs { image, reason } => write!(f, "Image {image}: {reason}"),
            Error::Spec { guest, reason } => write!(f, "Guest {guest:?}: {reason}"),
            Error::Template { guest, reason } => write!(f, "Template of guest {guest}: {reason}"),
            Error::Tier { tier, what, .. } => write!(f, "Memory tiers, {tier}: {what}"),
            Error::Spawn { program, .. } => write!(f, "Cannot start {program}"),
            Error::QemuExited { guest, status, stderr } => {
                write!(f, "QEMU of guest {guest} ended ({status}): {}", stderr.trim_end())
            }
            Error::NotUp { guest, console, .. } => {
                write!(f, "Guest {guest} is not up; its console says:\n{}", console.trim_end())
            }
            Error::Channel { channel, .. } => write!(f, "Connection {channel} failed"),
            Error::Socket { path, .. } => write!(f, "Cannot listen on {}", path.display()),
            Error::Service { socket, reason } => {
                write!(f, "The farm at {} says: {reason}", socket.display())
            }
            Error::Deadline { waiting_for } => write!(f, "Too late: {waiting_for}"),
            Error::Qmp(_) => f.write_str("QEMU's monitor sent something wrong"),
            Error::QmpRefused { command, desc } => write!(f, "QEMU refused {command}: {desc}"),
            Error::Ctl { command, reason } => write!(f, "Guest command {command:?}: {reason}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::File { source, .. }
            | Error::Spawn { source, .. }
            | Error::Socket { source, .. }
            | Error::Channel { source, .. } => Some(source),
            Error::NotUp { source, .. } => Some(source),
            Error::Qmp(source) => Some(source),
            Error::Tier { source: Some(source), .. } => Some(source),
            _ => None,
        }
    }
}

impl From<qmp::Error> for Error {
    fn from(error: qmp::Error) -> Self {
        Error::Qmp(error)
    }
}

/// Attaches the action and the path to a file error.
pub(crate) trait FileContext<T> {
    /// `action` is a verb that fits "Cannot ... PATH".
    fn file(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T, Error>;
}

impl<T> FileContext<T> for io::Result<T> {
    fn file(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T, Error> {
        self.map_err(|source| Error::File { action, path: path.into(), source })
    }
}
