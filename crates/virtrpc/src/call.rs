//! The calls that pinhead makes.

use crate::Error;
use crate::decoder::Header;
use crate::reply::{self, Domain, Reply};
use crate::xdr::Writer;

/// libvirt's own protocol among those that its socket speaks.
pub(crate) const PROGRAM: u32 = 0x2000_8086;
/// Its version, the same since it was published.
pub(crate) const VERSION: u32 = 1;
/// The type of a call in its header.
pub(crate) const KIND_CALL: u32 = 0;

/// Domains that run or are paused, and no others.
const LIST_ACTIVE: u32 = 1;

/// Events that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A domain started, stopped, was paused or goes on.
    Lifecycle,
    /// A domain restarts in the same process.
    Reboot,
    /// A domain's memory became more or less.
    BalloonChange,
    /// A round of copying a domain to another host is over.
    MigrationIteration,
    /// A domain's move, save or dump is over, however it ended.
    JobCompleted,
}

impl EventKind {
    /// All of them.
    pub const ALL: [EventKind; 5] = [
        EventKind::Lifecycle,
        EventKind::Reboot,
        EventKind::BalloonChange,
        EventKind::MigrationIteration,
        EventKind::JobCompleted,
    ];

    /// libvirt's number of the event in a registration.
    fn id(self) -> i32 {
        match self {
            EventKind::Lifecycle => 0,
            EventKind::Reboot => 1,
            EventKind::BalloonChange => 13,
            EventKind::MigrationIteration => 20,
            EventKind::JobCompleted => 21,
        }
    }
}

/// Says that a change is to the running domain and not to what it is started from next time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AffectLive;

impl AffectLive {
    const FLAG: u32 = 1;
}

/// A call with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Which proof of who we are is wanted.
    AuthList,
    /// Have the host's policy asked about us.
    AuthPolkit,
    /// Open the hypervisor of this URI, for writing.
    Open {
        /// Such as `qemu:///system`.
        uri: String,
    },
    /// All domains that run or are paused.
    ListActive,
    /// A domain's description as it runs.
    Xml(Domain),
    /// A domain's state and the reason for it.
    State(Domain),
    /// A domain's state and memory. It does not wake the guest.
    Info(Domain),
    /// Whether its hypervisor answers. It does not ask the hypervisor, so it never hangs.
    Control(Domain),
    /// Asks the guest to keep this much memory.
    SetMemory {
        /// Whose.
        domain: Domain,
        /// The size that the guest keeps.
        memory_kib: u64,
        /// It is for the running domain.
        live: AffectLive,
    },
    /// What is known of a domain's memory.
    MemoryStats(Domain),
    /// How often the guest reports its memory.
    SetStatsPeriod {
        /// Whose.
        domain: Domain,
        /// 0 turns the reports off; each report wakes the guest.
        period_seconds: i32,
        /// It is for the running domain.
        live: AffectLive,
    },
    /// Have such events of all domains told.
    Register(EventKind),
}

impl Call {
    /// The call's name in the protocol.
    pub fn name(&self) -> &'static str {
        match self {
            Call::AuthList => "auth_list",
            Call::AuthPolkit => "auth_polkit",
            Call::Open { .. } => "connect_open",
            Call::ListActive => "connect_list_all_domains",
            Call::Xml(_) => "domain_get_xml_desc",
            Call::State(_) => "domain_get_state",
            Call::Info(_) => "domain_get_info",
            Call::Control(_) => "domain_get_control_info",
            Call::SetMemory { .. } => "domain_set_memory_flags",
            Call::MemoryStats(_) => "domain_memory_stats",
            Call::SetStatsPeriod { .. } => "domain_set_memory_stats_period",
            Call::Register(_) => "connect_domain_event_callback_register_any",
        }
    }

    /// The call's number in the protocol.
    pub(crate) fn procedure(&self) -> i32 {
        match self {
            Call::Open { .. } => 1,
            Call::Xml(_) => 14,
            Call::Info(_) => 16,
            Call::AuthList => 66,
            Call::AuthPolkit => 70,
            Call::MemoryStats(_) => 159,
            Call::SetMemory { .. } => 204,
            Call::State(_) => 212,
            Call::Control(_) => 229,
            Call::ListActive => 273,
            Call::SetStatsPeriod { .. } => 308,
            Call::Register(_) => 316,
        }
    }

    /// The bytes of this call.
    pub fn encode(&self, serial: u32) -> Vec<u8> {
        let header = Header {
            program: PROGRAM,
            version: VERSION,
            procedure: self.procedure(),
            kind: KIND_CALL,
            serial,
            status: 0,
        };
        header.encode(&self.arguments())
    }

    fn arguments(&self) -> Vec<u8> {
        /// What most calls have last, and what most of those leave at nothing.
        const NO_FLAGS: u32 = 0;
        let mut writer = Writer::default();
        match self {
            Call::AuthList | Call::AuthPolkit => {}
            Call::Open { uri } => {
                writer.u32(1); // the name is there
                writer.text(uri);
                writer.u32(NO_FLAGS);
            }
            Call::ListActive => {
                writer.u32(1); // the domains are wanted, and not only how many there are
                writer.u32(LIST_ACTIVE);
            }
            Call::Xml(domain) | Call::State(domain) | Call::Control(domain) => {
                domain.write(&mut writer);
                writer.u32(NO_FLAGS);
            }
            Call::Info(domain) => domain.write(&mut writer),
            Call::SetMemory { domain, memory_kib, live: AffectLive } => {
                domain.write(&mut writer);
                writer.u64(*memory_kib);
                writer.u32(AffectLive::FLAG);
            }
            Call::MemoryStats(domain) => {
                domain.write(&mut writer);
                writer.u32(u32::try_from(reply::STATS_MAX).unwrap_or(u32::MAX));
                writer.u32(NO_FLAGS);
            }
            Call::SetStatsPeriod { domain, period_seconds, live: AffectLive } => {
                domain.write(&mut writer);
                writer.i32(*period_seconds);
                writer.u32(AffectLive::FLAG);
            }
            Call::Register(kind) => {
                writer.i32(kind.id());
                writer.u32(0); // no domain: of all
            }
        }
        writer.bytes
    }

    /// Reads what the daemon returned for this call.
    pub fn read_reply(&self, body: &[u8]) -> Result<Reply, Error> {
        match self {
            Call::AuthList => reply::auths(body),
            Call::ListActive => reply::domains(body),
            Call::Xml(_) => reply::xml(body),
            Call::State(_) => reply::state(body),
            Call::Info(_) => reply::info(body),
            Call::Control(_) => reply::control(body),
            Call::MemoryStats(_) => reply::memory_stats(body),
            Call::Register(_) => reply::callback(body),
            Call::AuthPolkit
            | Call::Open { .. }
            | Call::SetMemory { .. }
            | Call::SetStatsPeriod { .. } => Ok(Reply::Done),
        }
    }
}
