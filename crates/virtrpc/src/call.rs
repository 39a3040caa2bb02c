//! The calls that pinhead makes.

use crate::decoder::Header;
use crate::domain::{DOMAINS_MAX, Domain};
use crate::xdr::Writer;

/// libvirt's own protocol among those that its socket speaks.
pub(crate) const PROGRAM: u32 = 0x2000_8086;
/// Its version, the same since it was published.
pub(crate) const VERSION: u32 = 1;
/// The type of a call in its header.
pub(crate) const KIND_CALL: u32 = 0;

/// Domains that run or are paused, and no others.
const LIST_ACTIVE: u32 = 1;
/// Nothing but looking.
const READ_ONLY: u32 = 1;
/// All CPUs of a host together, or all cells of its memory.
const ALL: i32 = -1;
/// Statistics of state, CPU time, balloon, interfaces and block devices. Those of virtual CPUs are
/// left out: for them QEMU before 8.1 takes each virtual CPU out of its guest.
const STATS: u32 = 1 | 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5;
/// Whose hypervisor is busy tells less, and keeps nobody waiting.
const NO_WAIT: u32 = 1 << 29;
/// What the domain is started from next time, and not what it has.
const INACTIVE: u32 = 1 << 1;
/// A change is to the running domain, and not to what it is started from next time.
const AFFECT_LIVE: u32 = 1;

/// The most statistics of a domain; there are 13 kinds today.
pub const STATS_MAX: usize = 64;

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
    /// A virtio-mem device of a domain gives more or less. Since libvirt 7.9.
    MemoryDeviceSize,
}

impl EventKind {
    /// All of them.
    pub const ALL: [EventKind; 6] = [
        EventKind::Lifecycle,
        EventKind::Reboot,
        EventKind::BalloonChange,
        EventKind::MigrationIteration,
        EventKind::JobCompleted,
        EventKind::MemoryDeviceSize,
    ];

    /// libvirt's number of the event in a registration.
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
    /// Which proof of who we are is wanted.
    AuthList,
    /// Have the host's policy asked about us.
    AuthPolkit,
    /// Open the hypervisor of this URI.
    Open {
        /// Such as `qemu:///system`.
        uri: String,
        /// Calls that change anything are refused then.
        is_read_only: bool,
    },
    /// The host's CPUs and memory.
    NodeInfo,
    /// Times of all of the host's CPUs.
    NodeCpuStats {
        /// How many the host has: it answers that, if it is asked for 0, and refuses another count.
        count: u32,
    },
    /// The host's memory.
    NodeMemoryStats {
        /// As with those of CPUs.
        count: u32,
    },
    /// What is known of some domains, without a word to their guests.
    Stats(Vec<Domain>),
    /// All domains that run or are paused.
    ListActive,
    /// A domain's description as it runs.
    Xml(Domain),
    /// A domain's description as it is started from next time; one without such has its own.
    ConfiguredXml(Domain),
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
    },
    /// Stops a domain's virtual CPUs.
    Suspend(Domain),
    /// Lets a suspended domain's virtual CPUs run again.
    Resume(Domain),
    /// What is known of a domain's memory.
    MemoryStats(Domain),
    /// How often the guest reports its memory.
    SetStatsPeriod {
        /// Whose.
        domain: Domain,
        /// 0 turns the reports off; each report wakes the guest.
        period_seconds: i32,
    },
    /// Have such events of all domains told.
    Register(EventKind),
}

impl Call {
    /// The call's name and number in the protocol.
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

    /// The call's name in the protocol.
    pub fn name(&self) -> &'static str {
        self.procedure().0
    }

    /// The bytes of this call.
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
        /// What most calls have last, and what most of those leave at nothing.
        const NO_FLAGS: u32 = 0;
        let mut writer = Writer::default();
        match self {
            Call::AuthList | Call::AuthPolkit | Call::NodeInfo => {}
            Call::Open { uri, is_read_only } => {
                writer.u32(1); // the name is there
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
                writer.u32(1); // the domains are wanted, and not only how many there are
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
                writer.u32(0); // no domain: of all
            }
        }
        writer.bytes
    }
}
