//! The settings as they hold: checked, and with defaults where nothing was said.

use std::path::{Path, PathBuf};

use base::{Bytes, glob};
use policy::arbiter::{Config, Limits, Mode};
use store::Keep;

use super::Share;
use crate::scrape::Listen;
use metrics::{Processes, Url};

/// A sample older than this decides nothing.
const STALE_MS: u64 = 1000;
/// A guest whose class says nothing keeps at least this part,
const MIN_PERMILLE: u64 = 150;
/// and at least this much.
const MIN_BYTES: Bytes = Bytes::mib(64);
/// Milliseconds in a day.
pub(super) const DAY_MS: u64 = 86_400_000;
/// The weight of a guest whose class says nothing.
pub(super) const SHARES: u32 = 100;

/// Everything that a file can say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `[host]`
    pub host: HostSettings,
    /// `[sources]`
    pub sources: Sources,
    /// `[policy]`
    pub policy: PolicySettings,
    /// `[[class]]`, in their order.
    pub classes: Vec<Class>,
    /// `[ksm]`
    pub ksm: KsmMode,
    /// `[journal]`
    pub journal: JournalSettings,
    /// `[monitor]`
    pub monitor: MonitorSettings,
    /// `[control]`
    pub control: ControlSettings,
    /// `[metrics]`
    pub metrics: MetricsSettings,
}

/// How the host is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSettings {
    /// Free memory that it is to have.
    pub set_point: Share,
    /// How far that may be missed.
    pub hysteresis: Share,
    /// Free memory that no grant touches.
    pub reserve: Share,
    /// What guests may use together.
    pub budget: Option<Share>,
    /// Time between two passes.
    pub interval_ms: u64,
}

/// Where guests are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Patterns of QMP sockets.
    pub qmp: Vec<String>,
    /// libvirt.
    pub libvirt: Libvirt,
}

/// Which libvirt is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Libvirt {
    /// The system's, if its socket is there.
    Auto,
    /// These; none if it is empty.
    Uris(Vec<LibvirtUri>),
}

/// A libvirt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibvirtUri {
    /// `qemu:///system` or `qemu:///session`.
    pub uri: String,
    /// Its socket, if it was named (`qemu+unix:///system?socket=/path`).
    pub socket: Option<PathBuf>,
}

/// How it is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySettings {
    /// How much more idle memory counts, in thousandths.
    pub idle_tax_permille: u64,
    /// The largest step down, in thousandths.
    pub step_permille: u64,
    /// The operator's rules.
    pub rules: Option<PathBuf>,
    /// The settings of the second policy.
    pub shadow: Option<PathBuf>,
}

/// Guests with something in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Patterns of its guests' names.
    pub patterns: Vec<String>,
    /// A guest never has less; `None` is the default.
    pub min: Option<Share>,
    /// A guest never has more.
    pub max: Share,
    /// A guest's weight.
    pub shares: u32,
    /// A guest has this much.
    pub pin: Option<Share>,
    /// Its guests are not managed.
    pub release: bool,
}

/// What is done about KSM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KsmMode {
    /// It is driven, if it is there and may be written.
    Auto,
    /// The kernel's search is stopped.
    Off,
    /// Nothing; it is only shown.
    Leave,
}

/// The record of decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalSettings {
    /// Its file; `None` where no directory for it is known.
    pub path: Option<PathBuf>,
    /// How long decisions are kept.
    pub keep_ms: u64,
    /// How large it becomes.
    pub max_size: Bytes,
}

/// Recordings of everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorSettings {
    /// Whether anything is recorded.
    pub record: bool,
    /// Their directory; `None` where none is known.
    pub dir: Option<PathBuf>,
    /// How long one-minute rows are kept.
    pub minutes_ms: u64,
    /// How long rows of 15 minutes are kept.
    pub quarters_ms: u64,
    /// How large rows become.
    pub max_size: Bytes,
    /// How long samples of single seconds are kept.
    pub raw_ms: u64,
    /// How large they become.
    pub raw_size: Bytes,
}

/// The socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlSettings {
    /// Its path; `None` where no directory for it is known.
    pub socket: Option<PathBuf>,
    /// The group that may ask, by name or number.
    pub group: Option<String>,
}

/// The metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSettings {
    /// Where they are served.
    pub listen: Option<Listen>,
    /// Where they are pushed to.
    pub remote_write: Option<Url>,
    /// Time between two pushes.
    pub interval_ms: u64,
    /// What the host is called in them; `None` is its own name.
    pub host: Option<String>,
    /// Whether processes of guests are among them.
    pub processes: Processes,
}

impl Settings {
    /// How the arbiter is to keep a host of this size.
    pub fn arbiter(&self, host_total: Bytes) -> Config {
        Config {
            set_point: self.host.set_point.of(host_total),
            hysteresis: self.host.hysteresis.of(host_total),
            reserve: self.host.reserve.of(host_total),
            idle_tax_permille: self.policy.idle_tax_permille,
            step_permille: self.policy.step_permille,
            stale_ms: STALE_MS,
        }
    }

    /// What guests may use together on a host of this size, if that is less than all.
    pub fn budget(&self, host_total: Bytes) -> Option<Bytes> {
        self.host.budget.map(|budget| budget.of(host_total)).filter(|size| *size < host_total)
    }

    /// What a guest of this name and size is entitled to, and the class that says so.
    pub fn limits(&self, name: &str, memory: Bytes) -> (Limits, Option<&str>) {
        let fits =
            |class: &&Class| class.patterns.iter().any(|pattern| glob::matches(pattern, name));
        let class = self.classes.iter().find(fits);
        let limits = class.map_or_else(
            || limits(None, Share::Permille(1000), SHARES, Mode::Managed, memory),
            |class| limits(class.min, class.max, class.shares, class.mode(memory), memory),
        );
        (limits, class.map(|class| class.name.as_str()))
    }

    /// The same, with paths relative to `dir`.
    #[must_use]
    pub fn below(mut self, dir: &Path) -> Settings {
        for path in [&mut self.policy.rules, &mut self.policy.shadow].into_iter().flatten() {
            *path = dir.join(&*path);
        }
        self
    }
}

impl MonitorSettings {
    /// How much is kept; what was begun of a day or an hour counts whole.
    pub fn keep(&self) -> Keep {
        let whole = |ms: u64, unit_ms: u64| u32::try_from(ms.div_ceil(unit_ms)).unwrap_or(u32::MAX);
        Keep {
            minutes_days: whole(self.minutes_ms, DAY_MS),
            quarters_days: whole(self.quarters_ms, DAY_MS),
            raw_hours: whole(self.raw_ms, DAY_MS / 24),
            raw_bytes: self.raw_size.0,
            most_bytes: self.max_size.0,
        }
    }
}

impl Class {
    fn mode(&self, memory: Bytes) -> Mode {
        match self.pin {
            _ if self.release => Mode::Released,
            Some(pin) => Mode::Pinned(pin.of(memory).min(memory)),
            None => Mode::Managed,
        }
    }
}

/// Parts and sizes can be compared only now that the guest's memory is known: what is too much
/// for it is cut to what it has, and the minimum wins.
fn limits(min: Option<Share>, max: Share, shares: u32, mode: Mode, memory: Bytes) -> Limits {
    let default = || memory.permille(MIN_PERMILLE).max(MIN_BYTES);
    let min = min.map_or_else(default, |min| min.of(memory)).min(memory);
    Limits { min, max: max.of(memory).min(memory).max(min), shares, mode }
}
