//! Answers. These are the protocol's own types: a change here is a change of the protocol, and
//! belongs into docs/host.md.
//!
//! Units stand last in names. What is not known is null.

use std::collections::BTreeMap;
use std::fmt;

use model::GuestIdentity;
use policy::arbiter::Clause;
use policy::ksm::Phase;
use serde::{Deserialize, Serialize};

use super::words::{GuestMode, GuestRunState, SizeAction};
use super::{Captured, ConsoleLog, FarmTable, HostRow, Lent, Levers, Passed, Scanned};

/// A guest is asleep whose virtual CPUs run less of the time than this, in percent of one CPU. An
/// idle Linux keeps below it, emulated too, but where it is built to tick without work.
pub const ASLEEP_PERCENT: u64 = 2;

/// A request that was not served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Why not, as a sentence.
    pub message: String,
    /// What would be right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Failure {
    /// A failure without advice.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), help: None }
    }

    /// The same, with advice.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Failure {
        Failure { help: Some(help.into()), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, " ({help})"))
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "kebab-case")]
pub enum Answer {
    /// To `ps`.
    Ps(Ps),
    /// To `set`: what holds now.
    Set(Entitled),
    /// To `park` and `wake`.
    Park(Parked),
    /// To `reserve`.
    Reserve(Reserved),
    /// To `unreserve`.
    Unreserve {},
    /// To `inputs`.
    Inputs(Inputs),
    /// To `scan`.
    Scan(Box<Scanned>),
    /// To `interval`.
    Interval(Box<Passed>),
    /// To `levers`.
    Levers(Box<Levers>),
    /// To `status`.
    Status(Box<Status>),
    /// To `reload`.
    Reload(Reloaded),
    /// To `farm`.
    Farm(FarmTable),
    /// To `logs`.
    Logs(ConsoleLog),
    /// To `console`: the connection is the guest's terminal from here on.
    Console {},
    /// To `exec`: the output of the command follows, and then its end.
    Exec {},
    /// To `capture`.
    Capture(Captured),
    /// To `lend`: the lease ends with the connection.
    Lend(Lent),
    /// To `down`: the number of guests that end.
    Down {
        /// How many they are.
        guests: usize,
    },
}

/// A guest that was parked or woken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// Its name.
    pub guest: String,
    /// Why its memory stays where it is, if it is not to be paged out.
    pub kept: Option<String>,
}

/// All guests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ps {
    /// The host.
    pub host: HostRow,
    /// KSM.
    pub ksm: KsmRow,
    /// The guests, by name.
    pub guests: Vec<GuestRow>,
}

/// KSM: its gain and its cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KsmRow {
    /// Whether the manager drives it.
    pub driven: bool,
    /// Whether the kernel scans.
    pub runs: Option<bool>,
    /// How hard it looks: off, hard, steady, slow, rest.
    #[serde(default, with = "super::words")]
    pub phase: Option<Phase>,
    /// Memory that needs no place of its own any more.
    pub gain_bytes: Option<u64>,
    /// That without what KSM keeps for itself.
    pub profit_bytes: Option<i64>,
    /// CPU time of its thread, in percent of one core.
    pub cost_percent: Option<f64>,
}

/// A guest. Its texts come from outside: escape them before they are shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GuestRow {
    /// Its number in this manager.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its UUID, empty if it has none.
    pub uuid: String,
    /// Its process on the host.
    pub pid: Option<u32>,
    /// Where it was found.
    pub source: String,
    /// Its class.
    pub class: Option<String>,
    /// Who decides about it.
    pub mode: GuestMode,
    /// How it runs.
    pub state: GuestRunState,
    /// Why nothing may be asked of it, or nothing is known of it, if so.
    pub unusable: Option<String>,
    /// Whether a daemon inside speaks to us.
    pub daemon: bool,
    /// What it was started with.
    pub memory_bytes: u64,
    /// What it has.
    pub actual_bytes: Option<u64>,
    /// The target of its balloon.
    pub target_bytes: Option<u64>,
    /// What it never gets less than.
    pub min_bytes: u64,
    /// What it never gets more than.
    pub max_bytes: u64,
    /// Its weight.
    pub shares: u32,
    /// Its own memory that is in the host's, and nobody else's.
    pub resident_bytes: Option<u64>,
    /// What its process has there for itself: that, and its hypervisor's own.
    pub private_bytes: Option<u64>,
    /// What of that is its hypervisor's own and no memory of the guest.
    pub own_bytes: Option<u64>,
    /// Whether that was measured; else it is an estimate.
    pub own_measured: bool,
    /// What it has together with others: of a template, of programs.
    pub shared_bytes: Option<u64>,
    /// What of the host's memory its swapped part takes, compressed.
    pub compressed_bytes: Option<u64>,
    /// What it could use without swapping.
    pub available_bytes: Option<u64>,
    /// What it needs beyond what it has.
    pub need_bytes: Option<u64>,
    /// Percent of one CPU that its virtual CPUs ran.
    pub cpu_percent: Option<f64>,
    /// Percent of one CPU that they waited for one.
    pub steal_percent: Option<f64>,
    /// Time in which some task of it waited for memory, in thousandths.
    pub psi_permille: Option<f64>,
    /// How old its newest sample is.
    pub age_ms: Option<u64>,
    /// What the last decision did.
    pub action: Option<SizeAction>,
    /// The clause that decided.
    #[serde(default, with = "super::words")]
    pub clause: Option<Clause>,
    /// Why, as a sentence.
    pub reason: Option<String>,
    /// How often it was moved back and forth.
    pub reversals: u32,
    /// Its virtual CPUs ran less than [`ASLEEP_PERCENT`] of one CPU over the last five seconds, as
    /// the host sees it.
    pub asleep: bool,
    /// What of it the host has swapped out.
    pub swapped_bytes: Option<u64>,
    /// Faults a second of its process for which the host had to read.
    pub host_major_faults_s: Option<f64>,
    /// Time in which some task of its cgroup on the host waited for memory, in thousandths.
    pub host_psi_permille: Option<f64>,
    /// Free memory that came back by itself, by page reporting.
    pub reported_bytes: u64,
    /// Whether free pages come back by themselves; null if that is unknown.
    pub page_reporting: Option<bool>,
    /// Whether its kernel takes memory back before it kills; null if that is unknown.
    pub deflate_on_oom: Option<bool>,
    /// The threads of its virtual CPUs on the host, in their order; empty if they are unknown.
    #[serde(default)]
    pub vcpu_tids: Vec<u32>,
}

impl GuestRow {
    /// Whether the monitor's guest is this one. A name alone may be two guests'.
    pub fn is_of(&self, who: &GuestIdentity) -> bool {
        who.name == self.name && who.pid == self.pid && (who.uuid == self.uuid || who.pid.is_some())
    }

    /// How it is, in a word: what stands under STATE wherever guests are listed.
    pub fn state_name(&self) -> &'static str {
        match (self.state, self.mode) {
            (GuestRunState::Running, GuestMode::Managed) if self.asleep => "asleep",
            (GuestRunState::Running, GuestMode::Managed) => "running",
            (GuestRunState::Running, mode) => mode.name(),
            (state, _) => state.name(),
        }
    }
}

/// What a guest is entitled to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entitled {
    /// Its name.
    pub guest: String,
    /// Its class.
    pub class: Option<String>,
    /// Who decides about it.
    pub mode: GuestMode,
    /// What it has, if it is pinned.
    pub pin_bytes: Option<u64>,
    /// It never gets less.
    pub min_bytes: u64,
    /// It never gets more.
    pub max_bytes: u64,
    /// Its weight.
    pub shares: u32,
}

/// Memory that is held for a client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reserved {
    /// Its number, for `unreserve`.
    pub reservation: u64,
    /// How much is held.
    pub mib: u64,
    /// How long.
    pub hold_ms: u64,
}

/// What the rules and the arbiter saw of a guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// Its name.
    pub guest: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Counters by name, such as `guest.available`, the newest value first.
    pub values: BTreeMap<String, Vec<Option<f64>>>,
    /// The arbiter's numbers by name.
    pub inputs: BTreeMap<String, Option<f64>>,
    /// What was decided with them.
    pub action: Option<SizeAction>,
    /// The clause that decided.
    #[serde(default, with = "super::words")]
    pub clause: Option<Clause>,
    /// Why, as a sentence.
    pub reason: Option<String>,
    /// The bounds that were hit.
    pub bounds: Vec<String>,
}

/// The manager.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// How long it has run.
    pub uptime_ms: u64,
    /// Whether it only decides, and does nothing.
    pub dry_run: bool,
    /// Its settings.
    pub config: Option<String>,
    /// The operator's rules.
    pub rules: Option<String>,
    /// The second policy's settings.
    pub shadow: Option<String>,
    /// The host.
    pub host: HostRow,
    /// KSM.
    pub ksm: KsmRow,
    /// Where guests come from.
    pub sources: Vec<SourceRow>,
    /// What holds if the manager dies.
    pub lease: LeaseRow,
    /// The record of decisions.
    pub journal: JournalRow,
    /// Guests that are there.
    pub guests: usize,
    /// Those of them that are managed.
    pub managed: usize,
    /// Passes so far.
    pub passes: u64,
    /// What the last one took.
    pub pass_us: Option<u64>,
    /// CPU time of the manager without that of page-out, in percent of one core since its start.
    pub cpu_percent: Option<f64>,
    /// CPU time of page-out, in the same way.
    #[serde(default)]
    pub page_out_cpu_percent: Option<f64>,
    /// Its memory.
    pub resident_bytes: Option<u64>,
    /// Clients at this socket.
    pub clients: usize,
    /// What it has to complain about, newest last.
    pub troubles: Vec<String>,
}

/// A source of guests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceRow {
    /// Its name, such as `qmp`.
    pub name: String,
    /// Guests of it.
    pub guests: usize,
    /// What is wrong with it.
    pub trouble: Option<String>,
}

/// The lease.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeaseRow {
    /// The keeper's process; null if there is none at the moment.
    pub keeper_pid: Option<u32>,
    /// Guests that it would restore.
    pub guests: usize,
    /// How often a keeper had to be started again.
    pub restarts: u64,
}

/// The journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JournalRow {
    /// Its file.
    pub path: Option<String>,
    /// Entries that wait to be written.
    pub waiting: u64,
    /// Entries that were lost.
    pub lost: u64,
    /// What is wrong with it.
    pub trouble: Option<String>,
}

/// The settings were read again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reloaded {
    /// The file.
    pub config: Option<String>,
    /// Guests whose limits have changed.
    pub changed_guests: usize,
    /// What takes a restart to take effect.
    pub notes: Vec<String>,
}
