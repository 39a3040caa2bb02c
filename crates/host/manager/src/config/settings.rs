//! The checked settings, with defaults for everything that was not configured.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use base::{Bytes, glob};
use metrics::{Processes, Url};
use policy::arbiter::{Config, Limits, Mode};
use policy::rivals::Kind;
use settings::{
    Section, Share, Table, checked, list, number, path, permille, share, size, time, truth, words,
};
use store::Keep;

use super::kinds::{
    GroupMay, KsmMode, Libvirt, PageOutMode, absolute, globs, group_may, ksm_mode, libvirt, listen,
    page_out_mode, policy_kind, processes, socket, url,
};
use super::zvm::ZvmSettings;
use crate::scrape::Listen;

/// Age above which a sample is too old for a decision. With a long interval, the limit is the
/// interval plus `LATE_MS`, so that a response that misses one pass still counts in the next.
const STALE_MS: u64 = 1000;
const LATE_MS: u64 = 500;
const DAY_MS: u64 = 86_400_000;
/// The weight of a guest without a class.
const SHARES: u32 = 100;
/// Default limit for all guests of a user together, as a part of the host's memory.
const USER_MAX: Share = Share::Permille(250);
/// Allowed intervals between passes. With a shorter interval the manager would only read counters,
/// and guests respond no faster. With a longer interval, a lease would run out between two passes.
const INTERVAL_MS: RangeInclusive<u64> = 100..=10_000;
/// Highest tax on idle memory, in permille. With 100%, an idle guest would have no claim to its
/// memory.
const IDLE_TAX_MAX: u64 = 990;
/// Allowed idle times before a page-out. Shorter times make no sense, because even an idle guest's
/// timers run every few seconds.
const PAGE_OUT_MS: RangeInclusive<u64> = 5_000..=DAY_MS;
/// Lowest size limit of the journal, enough for a day of a hundred guests.
const JOURNAL_MIN: Bytes = Bytes::mib(1);
/// Allowed push intervals. Metrics servers accept at most one sample a second, and show nothing for
/// series with less than one sample a minute.
const PUSH_MS: RangeInclusive<u64> = 1_000..=60_000;

/// All settings of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `[host]`
    pub host: HostSettings,
    /// `[sources]`
    pub sources: Sources,
    /// `[zvm]`
    pub zvm: ZvmSettings,
    /// `[policy]`
    pub policy: PolicySettings,
    /// `[[user]]`
    pub users: Vec<UserSettings>,
    /// `[[class]]`, in the order of the file.
    pub classes: Vec<Class>,
    /// `[ksm]`
    pub ksm: KsmMode,
    /// `[pageout]`
    pub page_out: PageOutSettings,
    /// `[journal]`
    pub journal: JournalSettings,
    /// `[monitor]`
    pub monitor: MonitorSettings,
    /// `[control]`
    pub control: ControlSettings,
    /// `[metrics]`
    pub metrics: MetricsSettings,
}

/// Error message for a budget that leaves nothing to guests, and the remedy.
pub const NO_BUDGET: (&str, &str) =
    ("no memory would be left for guests", "omit the budget to let guests use all memory");

/// Returns true if a budget leaves nothing to guests.
pub fn is_no_budget(budget: Share) -> bool {
    budget.of(Bytes(1000)) == Bytes::ZERO
}

settings::table! {
    /// Targets for the host's memory.
    #[derive(Copy)]
    pub struct HostSettings in "host" {
        /// free memory to maintain on the host
        set_point: Share = share, "10%";
        /// tolerated deviation from the set point
        hysteresis: Share = share, "1%";
        /// free memory that is never handed out
        reserve: Share = share, "3%";
        /// memory limit for all guests together
        budget: Option<Share> = checked(
            share,
            |budget| !is_no_budget(*budget),
            NO_BUDGET.0,
            NO_BUDGET.1,
        ), else "all memory";
        /// time between two passes, at least 100ms
        interval_ms("interval"): u64 = checked(
            time,
            |interval| INTERVAL_MS.contains(interval),
            "the time between two passes is too short or too long",
            "write a time from \"100ms\" to \"10s\"",
        ), "1s";
    }
}

settings::table! {
    /// Sources of guests.
    pub struct Sources in "sources" {
        /// patterns of paths of QMP sockets, with `*` and `?`; an empty list switches the search
        /// off
        qmp: Vec<String> = globs, else "pinhead's";
        /// libvirt's URIs; `auto` uses `qemu:///system` if its socket exists; an empty list
        /// switches libvirt off
        libvirt: Libvirt = libvirt, "auto";
        /// users, by name or number, with guests to manage; guests of root and of the manager's
        /// user are always managed
        users: Vec<String> = list, else "none";
    }
}

settings::table! {
    /// Settings of decisions.
    pub struct PolicySettings in "policy" {
        /// false: decisions are only written to the journal, as with `--dry-run`
        act: bool = truth, "true";
        /// rules that move memory: pinhead's, or another manager's for comparison
        kind: Kind = policy_kind, "pinhead";
        /// extra cost of idle memory compared with memory in use; a guest with much idle memory
        /// gives first
        idle_tax_permille("idle_tax"): u64 = checked(
            permille,
            |tax| *tax <= IDLE_TAX_MAX,
            "idle memory would be worth nothing",
            "at most \"99%\"; usual is \"75%\"",
        ), "75%";
        /// largest part of a guest's memory that the guest gives in one pass
        step_permille("step"): u64 = checked(
            permille,
            |step| *step > 0,
            "no guest would ever give memory",
            "write a percentage above 0, such as \"12.5%\"",
        ), "12.5%";
        /// a file of host rules, relative to this file
        rules: Option<PathBuf> = path, else "none";
        /// settings of a shadow policy, which decides but never acts
        shadow: Option<PathBuf> = path, else "none";
    }
}

settings::table! {
    /// Limits of a user named in `[sources] users`.
    pub struct UserSettings in "user" {
        /// the user, written as in `[sources] users`
        name: String = words, else "needed";
        /// limit for all guests of the user together, as a part of the host's memory
        max: Share = share, "25%";
        /// weight of all guests of the user together, against other guests
        shares: u32 = number(1..=1_000_000_u32), "100";
    }
}

settings::table! {
    /// A class of guests.
    pub struct Class in "class" {
        /// name of the class
        name: String = words, else "needed";
        /// patterns of the names of guests; the first class that matches a guest applies
        patterns("match"): Vec<String> = checked(
            list,
            |patterns| !patterns.is_empty(),
            "the list of patterns is empty, so the class has no guests",
            "write a pattern such as \"*\", which matches every name",
        ), else "needed";
        /// lower limit of a guest
        min: Option<Share> = share, else "15%, at least 64 MiB";
        /// upper limit of a guest
        max: Share = share, "100%";
        /// a guest's weight against others
        shares: u32 = number(1..=1_000_000_u32), "100";
        /// fixed size of a guest
        pin: Option<Share> = share, else "none";
        /// true: the guests of the class are not managed
        release: bool = truth, "false";
        /// false: memory of the guests is never paged out to the host's swap
        page_out("pageout"): bool = truth, "true";
    }
}

settings::table! {
    /// Settings of KSM.
    pub struct KsmSettings in "ksm" {
        /// `auto` controls KSM, `off` stops it, `leave` does not touch it
        mode: KsmMode = ksm_mode, "auto";
    }
}

settings::table! {
    /// Settings of page-out to the host's swap.
    #[derive(Copy)]
    pub struct PageOutSettings in "pageout" {
        /// `sleepers`: idle guests only; `all`: also running guests while the host is below its set
        /// point; `off`: none
        mode: PageOutMode = page_out_mode, "all";
        /// time with hardly any CPU use after which a guest is idle
        after_ms("after"): u64 = checked(
            time,
            |after| PAGE_OUT_MS.contains(after),
            "too short to recognize an idle guest, or too long to be useful",
            "write a time from \"5s\" to \"24h\"",
        ), "30s";
        /// page-out stops while more than this part of swap, or of the memory behind it, is in use
        swap_permille("swap"): u64 = permille, "80%";
        /// page-out pauses while tasks of the host wait for memory for more than this part of the
        /// time
        pressure_permille("pressure"): u64 = permille, "0.1%";
    }
}

settings::table! {
    /// Settings of the journal.
    pub struct JournalSettings in "journal" {
        /// file of the decisions
        path: Option<PathBuf> = absolute, else "/var/lib/pinhead/journal.db";
        /// time for which decisions are kept
        keep_ms("keep"): u64 = time, "30d";
        /// maximum size of the journal
        max_size: Bytes = checked(
            size,
            |size| *size >= JOURNAL_MIN,
            "too small for a journal",
            "at least \"1 MiB\"",
        ), "200 MiB";
    }
}

settings::table! {
    /// Settings of recordings.
    pub struct MonitorSettings in "monitor" {
        /// false: nothing is recorded
        record: bool = truth, "true";
        /// directory of the recordings
        dir: Option<PathBuf> = absolute, else "recordings, beside the journal";
        /// time for which one-minute rows are kept
        minutes_ms("minutes"): u64 = time, "3d";
        /// time for which rows of 15 minutes are kept
        quarters_ms("quarters"): u64 = time, "90d";
        /// maximum size of the rows of one minute and of 15 minutes together
        max_size: Bytes = size, "1 GiB";
        /// time for which samples of single seconds are kept
        raw_ms("raw"): u64 = time, "24h";
        /// maximum size of the samples
        raw_size: Bytes = size, "256 MiB";
    }
}

settings::table! {
    /// Settings of the control socket.
    pub struct ControlSettings in "control" {
        /// path of the control socket
        socket: Option<PathBuf> = socket, else "/run/pinhead/host.sock";
        /// a group with access in addition to the owner, by name or number
        group: Option<String> = words, else "none";
        /// rights of the group's members: `ask` only, or `set`, which includes `reserve` and
        /// `reload`
        group_may: GroupMay = group_may, "ask";
    }
}

settings::table! {
    /// Settings of metrics.
    pub struct MetricsSettings in "metrics" {
        /// address and port, or path of a socket, on which metrics are served
        listen: Option<Listen> = listen, else "none";
        /// URL to which metrics are pushed: http:// only, no TLS
        remote_write: Option<Url> = url, else "none";
        /// time between two pushes
        interval_ms("interval"): u64 = checked(
            time,
            |interval| PUSH_MS.contains(interval),
            "the time between two pushes is too short or too long",
            "write a time from \"1s\" to \"60s\"",
        ), "5s";
        /// name of the host in metrics
        host: Option<String> = words, else "the host name";
        /// true: processes of guests are exported too, each as its own series
        processes: Processes = processes, "false";
    }
}

/// All tables.
pub const SECTIONS: &[Section] = &[
    HostSettings::SECTION,
    Sources::SECTION,
    ZvmSettings::SECTION,
    PolicySettings::SECTION,
    UserSettings::SECTION,
    Class::SECTION,
    KsmSettings::SECTION,
    PageOutSettings::SECTION,
    JournalSettings::SECTION,
    MonitorSettings::SECTION,
    ControlSettings::SECTION,
    MetricsSettings::SECTION,
];

/// Totals of all guests of a user named in the settings. Each guest's part of the user's limit is
/// computed from these totals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserPart {
    /// Name of the user in the settings.
    pub user: String,
    /// Sum of the memory that the user's guests had at their start.
    pub memory: Bytes,
    /// Number of the user's guests.
    pub guests: u32,
    /// Memory of the host.
    pub host_total: Bytes,
}

impl Settings {
    /// Returns the arbiter's configuration for a host of this size.
    pub fn arbiter(&self, host_total: Bytes) -> Config {
        Config {
            set_point: self.host.set_point.of(host_total),
            hysteresis: self.host.hysteresis.of(host_total),
            reserve: self.host.reserve.of(host_total),
            idle_tax_permille: self.policy.idle_tax_permille,
            step_permille: self.policy.step_permille,
            stale_ms: STALE_MS.max(self.host.interval_ms + LATE_MS),
        }
    }

    /// Returns the budget of all guests together, if it is below the host's memory.
    pub fn budget(&self, host_total: Bytes) -> Option<Bytes> {
        self.host.budget.map(|budget| budget.of(host_total)).filter(|size| *size < host_total)
    }

    /// Returns the limits of a guest of this name and size, and the class that sets the limits.
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

    /// Returns the limits of a guest that may belong to another user. That user's part of the host
    /// is divided among the user's guests. These guests have no class, because the user could
    /// choose any name for a guest.
    pub fn entitlement(
        &self,
        name: &str,
        memory: Bytes,
        part: Option<&UserPart>,
    ) -> (Limits, Option<&str>) {
        match part {
            Some(part) => (self.limits_in(part, memory), None),
            None => self.limits(name, memory),
        }
    }

    fn limits_in(&self, part: &UserPart, memory: Bytes) -> Limits {
        let of_user = self.users.iter().find(|user| user.name == part.user);
        let (max, shares) = of_user.map_or((USER_MAX, SHARES), |user| (user.max, user.shares));
        let max = max.of(part.host_total);
        let max = if part.memory <= max { memory } else { divided(memory, max, part.memory) };
        let min = agent::floor(max);
        let shares = (shares / part.guests.max(1)).max(1);
        Limits { min, ordered: false, max, shares, mode: Mode::Managed }
    }

    /// Returns true if guests of this class may be paged out to the host's swap.
    pub fn may_page_out(&self, class: &str) -> bool {
        self.classes.iter().find(|found| found.name == class).is_none_or(|found| found.page_out)
    }

    /// Returns the same settings with paths relative to `dir`.
    #[must_use]
    pub fn below(mut self, dir: &Path) -> Settings {
        let policy = &mut self.policy;
        let paths = [&mut policy.rules, &mut policy.shadow, &mut self.zvm.notify];
        for path in paths.into_iter().flatten() {
            *path = dir.join(&*path);
        }
        self
    }
}

impl MonitorSettings {
    /// Returns the limits of recordings. Partial days and hours are rounded up.
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

/// Divides `all` in proportion to memory: returns the part for a guest with `memory` of the sum
/// `whole`.
fn divided(memory: Bytes, all: Bytes, whole: Bytes) -> Bytes {
    let part = u128::from(memory.0) * u128::from(all.0) / u128::from(whole.0.max(1));
    Bytes(u64::try_from(part).unwrap_or(u64::MAX))
}

/// Returns the limits of a guest. Shares and sizes can only be compared once the guest's memory is
/// known. Sizes are capped at the guest's memory, and the minimum wins over the maximum.
fn limits(min: Option<Share>, max: Share, shares: u32, mode: Mode, memory: Bytes) -> Limits {
    let min = min.map_or_else(|| agent::floor(memory), |min| min.of(memory)).min(memory);
    Limits { min, ordered: false, max: max.of(memory).min(memory).max(min), shares, mode }
}
