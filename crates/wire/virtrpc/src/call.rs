//! The calls that pinhead makes.

use crate::decoder::Header;
use crate::domain::{DOMAINS_MAX, Domain};
use crate::xdr::Writer;

/// The number of libvirt's own protocol on its socket.
pub(crate) const PROGRAM: u32 = 0x2000_8086;
/// The protocol's version, unchanged since it was published.
pub(crate) const VERSION: u32 = 1;
/// The type of a call in its header.
pub(crate) const KIND_CALL: u32 = 0;

/// Flag: only domains that run or are paused.
const LIST_ACTIVE: u32 = 1;
/// Flag: only calls that read.
const READ_ONLY: u32 = 1;
/// Value for all CPUs of a host together, or for all cells of its memory.
const ALL: i32 = -1;
/// The kinds of statistics: state, CPU time, balloon, interfaces and block devices. Statistics of
/// virtual CPUs are left out, because QEMU before 8.1 interrupts each virtual CPU for them.
const STATS: u32 = 1 | 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5;
/// Flag: a busy hypervisor returns fewer statistics instead of blocking.
const NO_WAIT: u32 = 1 << 29;
/// Flag: the domain's next configuration, not its current one.
const INACTIVE: u32 = 1 << 1;
/// Flag: change the running domain, not its next configuration.
const AFFECT_LIVE: u32 = 1;

/// Maximum number of statistics of a domain; there are 13 kinds today.
pub const STATS_MAX: usize = 64;

/// The events that can be registered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A domain has started, stopped, was paused or resumed.
    Lifecycle,
    /// A domain restarts in the same process.
    Reboot,
    /// A domain's memory size has changed.
    BalloonChange,
    /// A round of a domain's migration is complete.
    MigrationIteration,
    /// A domain's migration, save or dump has ended, in any way.
    JobCompleted,
    /// A virtio-mem device of a domain has changed its size. Since libvirt 7.9.
    MemoryDeviceSize,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [EventKind; 6] = [
        EventKind::Lifecycle,
        EventKind::Reboot,
        EventKind::BalloonChange,
        EventKind::MigrationIteration,
        EventKind::JobCompleted,
        EventKind::MemoryDeviceSize,
    ];

    /// Returns libvirt's number of the event for a registration.
    fn id(self) -> i32 {
        match self {
            EventKind::Lifecycle => 0,
            EventKind::Reboot => 1,
            EventKind::BalloonChange => 13,
            EventKind::MigrationIteration => 20,
            EventKind::JobCompleted => 21,
            EventKind::MemoryDeviceSize => 26,
        }
    }
}

/// A call with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Requests the kinds of authentication.
    AuthList,
    /// Authenticates by the host's polkit policy.
    AuthPolkit,
    /// Open the hypervisor of this URI.
    Open {
        /// The URI, such as `qemu:///system`.
        uri: String,
        /// If set, calls that change anything are refused.
        is_read_only: bool,
    },
    /// The host's CPUs and memory.
    NodeInfo,
    /// Times of all of the host's CPUs.
    NodeCpuStats {
        /// Requested number of values. For 0, the host answers with the correct number. The host
        /// refuses any other wrong number.
        count: u32,
    },
    /// The host's memory.
    NodeMemoryStats {
        /// Requested number of values, with the same rules as in `NodeCpuStats`.
        count: u32,
    },
    /// Statistics of some domains, without involving their guests.
    Stats(Vec<Domain>),
    /// All domains that run or are paused.
    ListActive,
    /// A domain's current description.
    Xml(Domain),
    /// A domain's description for its next start; a transient domain has only its current
    /// description.
    ConfiguredXml(Domain),
    /// A domain's state and the reason for it.
    State(Domain),
    /// A domain's state and memory. The call does not wake the guest.
    Info(Domain),
    /// State of the connection to the domain's hypervisor. The call does not involve the
    /// hypervisor, so it never hangs.
    Control(Domain),
    /// Requests the guest to keep this much memory.
    SetMemory {
        /// The domain.
        domain: Domain,
        /// The size that the guest keeps.
        memory_kib: u64,
    },
    /// Stops a domain's virtual CPUs.
    Suspend(Domain),
    /// Lets a suspended domain's virtual CPUs run again.
    Resume(Domain),
    /// A domain's memory statistics.
    MemoryStats(Domain),
    /// Sets the interval of the guest's memory reports.
    SetStatsPeriod {
        /// The domain.
        domain: Domain,
        /// 0 disables the reports; each report wakes the guest.
        period_seconds: i32,
    },
    /// Registers for these events of all domains.
    Register(EventKind),
}

impl Call {
    /// Returns the call's name and number in the protocol.
    pub(crate) fn procedure(&self) -> (&'static str, i32) {
        match self {
            Call::Open { .. } => ("connect_open", 1),
            Call::NodeInfo => ("node_get_info", 6),
            Call::Xml(_) | Call::ConfiguredXml(_) => ("domain_get_xml_desc", 14),
            Call::Info(_) => ("domain_get_info", 16),
            Call::Resume(_) => ("domain_resume", 28),
            Call::Suspend(_) => ("domain_suspend", 34),
            Call::AuthList => ("auth_list", 66),
            Call::AuthPolkit => ("auth_polkit", 70),
            Call::MemoryStats(_) => ("domain_memory_stats", 159),
            Call::SetMemory { .. } => ("domain_set_memory_flags", 204),
            Call::State(_) => ("domain_get_state", 212),
            Call::NodeCpuStats { .. } => ("node_get_cpu_stats", 227),
            Call::NodeMemoryStats { .. } => ("node_get_memory_stats", 228),
            Call::Control(_) => ("domain_get_control_info", 229),
            Call::ListActive => ("connect_list_all_domains", 273),
            Call::SetStatsPeriod { .. } => ("domain_set_memory_stats_period", 308),
            Call::Register(_) => ("connect_domain_event_callback_register_any", 316),
            Call::Stats(_) => ("connect_get_all_domain_stats", 344),
        }
    }

    /// Returns the call's name in the protocol.
    pub fn name(&self) -> &'static str {
        self.procedure().0
    }

    /// Encodes this call.
    pub fn encode(&self, serial: u32) -> Vec<u8> {
        let header = Header {
            program: PROGRAM,
            version: VERSION,
            procedure: self.procedure().1,
            kind: KIND_CALL,
            serial,
            status: 0,
        };
        header.encode(&self.arguments())
    }

    fn arguments(&self) -> Vec<u8> {
        /// The last argument of most calls, which is usually 0.
        const NO_FLAGS: u32 = 0;
        let mut writer = Writer::default();
        match self {
            Call::AuthList | Call::AuthPolkit | Call::NodeInfo => {}
            Call::Open { uri, is_read_only } => {
                writer.u32(1); // the name is present
                writer.text(uri);
                writer.u32(if *is_read_only { READ_ONLY } else { NO_FLAGS });
            }
            Call::NodeCpuStats { count } => {
                writer.i32(ALL);
                writer.u32(*count);
                writer.u32(NO_FLAGS);
            }
            Call::NodeMemoryStats { count } => {
                writer.u32(*count);
                writer.i32(ALL);
                writer.u32(NO_FLAGS);
            }
            Call::Stats(domains) => {
                let count = domains.len().min(DOMAINS_MAX);
                writer.u32(u32::try_from(count).unwrap_or(0));
                domains.iter().take(count).for_each(|domain| domain.write(&mut writer));
                writer.u32(STATS);
                writer.u32(NO_WAIT);
            }
            Call::ListActive => {
                writer.u32(1); // the domains, and not only their number
                writer.u32(LIST_ACTIVE);
            }
            Call::Xml(domain) | Call::State(domain) | Call::Control(domain) => {
                domain.write(&mut writer);
                writer.u32(NO_FLAGS);
            }
            Call::ConfiguredXml(domain) => {
                domain.write(&mut writer);
                writer.u32(INACTIVE);
            }
            Call::Info(domain) | Call::Suspend(domain) | Call::Resume(domain) => {
                domain.write(&mut writer);
            }
            Call::SetMemory { domain, memory_kib } => {
                domain.write(&mut writer);
                writer.u64(*memory_kib);
                writer.u32(AFFECT_LIVE);
            }
            Call::MemoryStats(domain) => {
                domain.write(&mut writer);
                writer.u32(u32::try_from(STATS_MAX).unwrap_or(u32::MAX));
                writer.u32(NO_FLAGS);
            }
            Call::SetStatsPeriod { domain, period_seconds } => {
                domain.write(&mut writer);
                writer.i32(*period_seconds);
                writer.u32(AFFECT_LIVE);
            }
            Call::Register(kind) => {
                writer.i32(kind.id());
                writer.u32(0); // no domain: events of all
            }
        }
        writer.bytes
    }
}
