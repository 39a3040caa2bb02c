//! Kinds of events in the journal, as machine names, so that a reader need not parse the texts.

/// The manager started.
pub const MANAGER_START: &str = "manager-start";
/// The manager stopped in order.
pub const MANAGER_STOP: &str = "manager-stop";
/// The configuration was reloaded or refused.
pub const RELOAD: &str = "reload";
/// A guest was found.
pub const FOUND: &str = "found";
/// A guest ended.
pub const GONE: &str = "gone";
/// A guest rebooted in the same process.
pub const REBOOTED: &str = "rebooted";
/// Memory was plugged into a guest, or unplugged.
pub const PLUGGED: &str = "plugged";
/// A guest reported the host on which it ran before.
pub const CAME_FROM: &str = "came-from";
/// Another program moves a balloon.
pub const FOREIGN: &str = "foreign";
/// The kernel's merging of equal pages was switched on or off.
pub const KSM: &str = "ksm";
/// Memory was reserved for a guest about to start.
pub const RESERVED: &str = "reserved";
/// A reservation failed.
pub const NOT_RESERVED: &str = "not-reserved";
/// A guest's memory was paged out, or page-out was not possible.
pub const PAGE_OUT: &str = "page-out";
/// Paged-out memory became resident again.
pub const CAME_BACK: &str = "came-back";
/// A guest is not paged out again, because page-out freed too little memory.
pub const LEFT_ALONE: &str = "left-alone";
/// A guest was parked, or could not be parked.
pub const PARKED: &str = "parked";
/// A parked guest runs again, or waking it failed.
pub const WOKEN: &str = "woken";
/// Records are missing because the journal could not be written.
pub const JOURNAL_GAP: &str = "journal-gap";
