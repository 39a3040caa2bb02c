//! Responses of the control socket. A change of these types changes the protocol, and belongs in
//! docs/host.md.
//!
//! Units stand last in names. An unknown value is null.

use std::collections::BTreeMap;
use std::fmt;

use model::{GuestIdentity, SizeAction};
use policy::arbiter::Clause;
use policy::ksm::Phase;
use serde::{Deserialize, Serialize};

use super::words::{GuestMode, GuestRunState};
use super::{Captured, ConsoleLog, FarmTable, HostRow, Lent, Levers, Passed, Scanned};

/// CPU time of a guest's virtual CPUs below which the guest counts as asleep, in percent of one
/// CPU. An idle Linux stays below this usage, even under emulation, unless its kernel ticks without
/// work.
pub const ASLEEP_PERCENT: u64 = 2;

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Reason for the failure, as a sentence.
    pub message: String,
    /// Advice on a correct request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Failure {
    /// Returns a failure without advice.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), help: None }
    }

    /// Returns the same failure with advice.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Failure {
        Failure { help: Some(help.into()), ..self }
    }

    /// Returns the failure for a guest without a daemon on this manager's port.
    pub(crate) fn no_daemon(guest: &str) -> Failure {
        let text = format!("No daemon in {guest} is connected to this manager");
        Failure::new(text).help("start pinheadd in it; see pinheadd(8)")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, " ({help})"))
    }
}

/// A response to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "kebab-case")]
pub enum Answer {
    /// Response to `ps`.
    Ps(Ps),
    /// Response to `set`: the limits now in force.
    Set(Entitled),
    /// Response to `park` and `wake`.
    Park(Parked),
    /// Response to `reserve`.
    Reserve(Reserved),
    /// Response to `unreserve`.
    Unreserve {},
    /// Response to `inputs`.
    Inputs(Inputs),
    /// Response to `scan`.
    Scan(Box<Scanned>),
    /// Response to `interval`.
    Interval(Box<Passed>),
    /// Response to `levers`.
    Levers(Box<Levers>),
    /// Response to `status`.
    Status(Box<Status>),
    /// Response to `reload`.
    Reload(Reloaded),
    /// Response to `yield`. The manager ends after it.
    Yield {},
    /// Response to `farm`.
    Farm(FarmTable),
    /// Response to `logs`.
    Logs(ConsoleLog),
    /// Response to `console`. From then on the connection is the guest's terminal.
    Console {},
    /// Response to `exec`. The command's output and its end follow.
    Exec {},
    /// Response to `capture`.
    Capture(Captured),
    /// Response to `lend`. The lease ends with the connection.
    Lend(Lent),
    /// Response to `down`.
    Down {
        /// Number of guests that end.
        guests: usize,
    },
}

/// A guest that was parked or woken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// Name of the guest.
    pub guest: String,
    /// Reason for not paging out the guest's memory, if any.
    pub kept: Option<String>,
}

/// The host, KSM and all guests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ps {
    pub host: HostRow,
    pub ksm: KsmRow,
    /// The guests, by name.
    pub guests: Vec<GuestRow>,
}

/// State, gain and cost of KSM.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KsmRow {
    /// True if the manager drives KSM.
    pub driven: bool,
    /// True if the kernel scans.
    pub runs: Option<bool>,
    /// Rate of scanning: off, apart (stopped because of several users), hard, steady, slow, rest.
    #[serde(default, with = "super::words")]
    pub phase: Option<Phase>,
    /// Memory saved by merging.
    pub gain_bytes: Option<u64>,
    /// Memory saved, less KSM's own memory.
    pub profit_bytes: Option<i64>,
    /// CPU time of KSM's thread, in percent of one core.
    pub cost_percent: Option<f64>,
}

/// A row of the table of guests. Its texts come from outside, so escape them before display.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GuestRow {
    /// Number of the guest in this manager.
    pub id: u64,
    pub name: String,
    /// UUID of the guest, empty if it has none.
    pub uuid: String,
    /// Process of the guest on the host.
    pub pid: Option<u32>,
    /// Source that found the guest.
    pub source: String,
    pub class: Option<String>,
    /// Mode of the guest: managed, pinned or released.
    pub mode: GuestMode,
    pub state: GuestRunState,
    /// Reason why the guest is not managed now, such as missing data.
    pub unusable: Option<String>,
    /// True if a guest daemon is connected.
    pub daemon: bool,
    /// Memory of the guest at its start.
    pub memory_bytes: u64,
    /// Actual memory, as the balloon leaves it.
    pub actual_bytes: Option<u64>,
    /// Target of the balloon.
    pub target_bytes: Option<u64>,
    /// Lower limit of the guest's memory.
    pub min_bytes: u64,
    /// Upper limit of the guest's memory.
    pub max_bytes: u64,
    /// Weight of the guest.
    pub shares: u32,
    /// Guest memory resident on the host and private to the guest.
    pub resident_bytes: Option<u64>,
    /// Private resident memory of the guest's process: guest memory and the hypervisor's own part.
    pub private_bytes: Option<u64>,
    /// The hypervisor's own part of the private memory.
    pub own_bytes: Option<u64>,
    /// True if the hypervisor's own part was measured, false if it is estimated.
    pub own_measured: bool,
    /// Resident memory shared with other processes, such as the memory of a template or of
    /// programs.
    pub shared_bytes: Option<u64>,
    /// Host memory used by the guest's compressed swap.
    pub compressed_bytes: Option<u64>,
    /// Memory available in the guest without swapping.
    pub available_bytes: Option<u64>,
    /// Memory that the guest needs in addition to its actual memory.
    pub need_bytes: Option<u64>,
    /// CPU time of the virtual CPUs, in percent of one CPU.
    pub cpu_percent: Option<f64>,
    /// Time for which virtual CPUs waited for a CPU, in percent of one CPU.
    pub steal_percent: Option<f64>,
    /// Share of time in which some task of the guest waited for memory, in thousandths.
    pub psi_permille: Option<f64>,
    /// Age of the newest sample.
    pub age_ms: Option<u64>,
    /// Action of the last decision.
    #[serde(default, with = "super::words")]
    pub action: Option<SizeAction>,
    /// Clause of the last decision.
    #[serde(default, with = "super::words")]
    pub clause: Option<Clause>,
    /// Reason for the last decision, as a sentence.
    pub reason: Option<String>,
    /// Number of reversals of the balloon's direction.
    pub reversals: u32,
    /// True if the virtual CPUs ran less than [`ASLEEP_PERCENT`] of one CPU over the last five
    /// seconds, as measured on the host.
    pub asleep: bool,
    /// Guest memory in the host's swap.
    pub swapped_bytes: Option<u64>,
    /// Major faults of the guest's process, per second.
    pub host_major_faults_s: Option<f64>,
    /// Share of time in which some task of the guest's control group on the host waited for memory,
    /// in thousandths.
    pub host_psi_permille: Option<f64>,
    /// Memory returned by free page reporting.
    pub reported_bytes: u64,
    /// True if free page reporting is on; null if unknown.
    pub page_reporting: Option<bool>,
    /// True if the guest's kernel deflates the balloon before an OOM kill; null if unknown.
    pub deflate_on_oom: Option<bool>,
    /// Threads of the virtual CPUs on the host, in order of the CPUs; empty if unknown.
    #[serde(default)]
    pub vcpu_tids: Vec<u32>,
    /// Online CPUs, as the daemon counts them.
    #[serde(default)]
    pub cpus_online: Option<u32>,
    /// CPUs present, online or not, as the daemon counts them.
    #[serde(default)]
    pub cpus_present: Option<u32>,
}

impl GuestRow {
    /// Returns true if the row is about this guest of the monitor. A name is not enough, because
    /// two guests may have the same name.
    pub fn is_of(&self, who: &GuestIdentity) -> bool {
        who.name == self.name && who.pid == self.pid && (who.uuid == self.uuid || who.pid.is_some())
    }

    /// Returns the guest's state in a word, as listed under STATE.
    pub fn state_name(&self) -> &'static str {
        match (self.state, self.mode) {
            (GuestRunState::Running, GuestMode::Managed) if self.asleep => "asleep",
            (GuestRunState::Running, GuestMode::Managed) => "running",
            (GuestRunState::Running, mode) => mode.name(),
            (state, _) => state.name(),
        }
    }
}

/// Limits of a guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entitled {
    /// Name of the guest.
    pub guest: String,
    /// Class of the guest.
    pub class: Option<String>,
    pub mode: GuestMode,
    /// Pinned size, if the guest is pinned.
    pub pin_bytes: Option<u64>,
    /// Lower limit of the guest's memory.
    pub min_bytes: u64,
    /// Upper limit of the guest's memory.
    pub max_bytes: u64,
    /// Weight of the guest.
    pub shares: u32,
}

/// Memory reserved for a client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reserved {
    /// Number of the reservation, for `unreserve`.
    pub reservation: u64,
    /// Size of the reservation.
    pub mib: u64,
    /// Duration of the reservation.
    pub hold_ms: u64,
}

/// Inputs of the rules and the arbiter for a guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// Name of the guest.
    pub guest: String,
    /// Time of the inputs, in milliseconds since 1970.
    pub at_ms: i64,
    /// Counters by name, such as `guest.available`, newest value first.
    pub values: BTreeMap<String, Vec<Option<f64>>>,
    /// The arbiter's inputs by name.
    pub inputs: BTreeMap<String, Option<f64>>,
    /// Action of the decision.
    #[serde(default, with = "super::words")]
    pub action: Option<SizeAction>,
    /// Clause of the decision.
    #[serde(default, with = "super::words")]
    pub clause: Option<Clause>,
    /// Reason for the decision, as a sentence.
    pub reason: Option<String>,
    /// Bounds that limited the decision.
    pub bounds: Vec<String>,
}

/// Status of the manager.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Process of the manager.
    pub pid: u32,
    /// Version of the manager.
    pub version: String,
    /// Time since the manager's start.
    pub uptime_ms: u64,
    /// True in a dry run, in which decisions are not carried out.
    pub dry_run: bool,
    /// File of settings.
    pub config: Option<String>,
    /// File of the operator's rules.
    pub rules: Option<String>,
    /// File of the shadow policy's settings.
    pub shadow: Option<String>,
    pub host: HostRow,
    pub ksm: KsmRow,
    /// Sources of guests.
    pub sources: Vec<SourceRow>,
    /// Lease that restores guests if the manager dies.
    pub lease: LeaseRow,
    /// Journal of decisions.
    pub journal: JournalRow,
    pub guests: usize,
    /// Number of managed guests.
    pub managed: usize,
    /// Number of passes since the start.
    pub passes: u64,
    /// Duration of the last pass.
    pub pass_us: Option<u64>,
    /// CPU time of the manager without page-out, in percent of one core since the start.
    pub cpu_percent: Option<f64>,
    /// CPU time of page-out, in percent of one core since the start.
    #[serde(default)]
    pub page_out_cpu_percent: Option<f64>,
    /// Resident memory of the manager.
    pub resident_bytes: Option<u64>,
    /// Clients of the control socket.
    pub clients: usize,
    /// Problem of each source, while it persists, and the reason if the monitor has failed.
    pub troubles: Vec<String>,
}

/// A source of guests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceRow {
    /// Name of the source, such as `qmp`.
    pub name: String,
    /// Number of guests of the source.
    pub guests: usize,
    /// Problem of the source, while it persists.
    pub trouble: Option<String>,
}

/// Status of the lease.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeaseRow {
    /// Process of the keeper; null without a running keeper.
    pub keeper_pid: Option<u32>,
    /// Guests that the keeper would restore.
    pub guests: usize,
    /// Restarts of the keeper.
    pub restarts: u64,
}

/// Status of the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JournalRow {
    /// File of the journal.
    pub path: Option<String>,
    /// Entries waiting to be written.
    pub waiting: u64,
    /// Entries lost.
    pub lost: u64,
    /// The journal's current problem, if any.
    pub trouble: Option<String>,
}

/// Result of reading the settings again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reloaded {
    /// File of settings.
    pub config: Option<String>,
    /// Guests with changed limits.
    pub changed_guests: usize,
    /// Changes that need a restart.
    pub notes: Vec<String>,
}
