//! Which guest, and which process in it, is meant.

/// Which guest is meant, from the hypervisor's socket to a report's cell: another process or
/// another boot is another guest. All texts come from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestIdentity {
    /// Its UUID as text. Where it was given none, the path of its monitor's socket stands here,
    /// or zeroes where it has none either.
    pub uuid: String,
    /// Its name.
    pub name: String,
    /// The class that its name, or its `pinhead up`, put it in; empty for none.
    pub class: String,
    /// Its process on the host, where that is known.
    pub pid: Option<u32>,
    /// When that process started, in clock ticks since the host's boot.
    pub start_ticks: Option<u64>,
    /// Distinguishes one boot of the guest from the next.
    pub boot: String,
}

/// Characters of a UUID that tell guests of one name apart.
const UUID_SHOWN: usize = 8;

/// Returns whether this is a UUID that was given: one of zeroes alone, or none, is nobody's.
pub fn has_uuid(uuid: &str) -> bool {
    !is_place(uuid) && uuid.chars().any(|c| c != '0' && c != '-')
}

/// Returns whether the path of a monitor stands in place of a UUID.
pub fn is_place(uuid: &str) -> bool {
    uuid.starts_with('/')
}

/// Returns the name of a guest with what tells it from others of that name.
pub fn label(name: &str, uuid: &str) -> String {
    let shown = if is_place(uuid) { uuid.len() } else { uuid.floor_char_boundary(UUID_SHOWN) };
    format!("{name} [{}]", &uuid[..shown])
}

impl GuestIdentity {
    /// Whether the other is this guest, in whatever class: the class is a matter of settings.
    pub fn is_same(&self, other: &GuestIdentity) -> bool {
        let key = |who: &GuestIdentity| (who.pid, who.start_ticks);
        key(self) == key(other)
            && (&self.uuid, &self.name, &self.boot) == (&other.uuid, &other.name, &other.boot)
    }

    /// Whether the other is the same process, in whatever boot and by whatever name.
    pub fn is_same_process(&self, other: &GuestIdentity) -> bool {
        (&self.uuid, self.pid, self.start_ticks) == (&other.uuid, other.pid, other.start_ticks)
    }
}

/// A process inside of a guest, or all of one name, or a thread that wakes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessName {
    /// Its name, from the guest: escape it.
    pub name: String,
    /// Its number in the guest; 0 for all processes of one name.
    pub pid: u32,
}
