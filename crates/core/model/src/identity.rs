//! Identity of a guest and of a process in it.

/// Identity of a guest. After a restart of its process or a reboot, a guest has another identity.
/// All texts are untrusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestIdentity {
    /// UUID as text. A guest without a UUID has the path of its monitor's socket here, or zeros if
    /// there is no path either.
    pub uuid: String,
    /// Name of the guest.
    pub name: String,
    /// Class from the guest's name or from `pinhead up`; empty for none.
    pub class: String,
    /// Process on the host, if it is known.
    pub pid: Option<u32>,
    /// Start of that process, in clock ticks since the host's boot.
    pub start_ticks: Option<u64>,
    /// Id of the guest's boot, which is different for each boot.
    pub boot: String,
}

/// Number of a UUID's characters that distinguish guests of one name.
const UUID_SHOWN: usize = 8;

/// Returns true if this is an assigned UUID: neither empty nor all zeros.
pub fn has_uuid(uuid: &str) -> bool {
    !is_place(uuid) && uuid.chars().any(|c| c != '0' && c != '-')
}

/// Returns true if this is the path of a monitor's socket in place of a UUID.
pub fn is_place(uuid: &str) -> bool {
    uuid.starts_with('/')
}

/// Returns the name of a guest with a suffix that distinguishes it from other guests of that name.
pub fn label(name: &str, uuid: &str) -> String {
    let shown = if is_place(uuid) { uuid.len() } else { uuid.floor_char_boundary(UUID_SHOWN) };
    format!("{name} [{}]", &uuid[..shown])
}

impl GuestIdentity {
    /// Returns true if both identities are of one guest. Classes are not compared, because they
    /// depend on settings.
    pub fn is_same(&self, other: &GuestIdentity) -> bool {
        let key = |who: &GuestIdentity| (who.pid, who.start_ticks);
        key(self) == key(other)
            && (&self.uuid, &self.name, &self.boot) == (&other.uuid, &other.name, &other.boot)
    }

    /// Returns true if both identities are of one process. Boots and names are not compared.
    pub fn is_same_process(&self, other: &GuestIdentity) -> bool {
        (&self.uuid, self.pid, self.start_ticks) == (&other.uuid, other.pid, other.start_ticks)
    }
}

/// A process inside a guest, all processes of one name, or a thread that wakes the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessName {
    /// Name, from the guest: escape it.
    pub name: String,
    /// Process id in the guest; 0 for all processes of one name.
    pub pid: u32,
}
