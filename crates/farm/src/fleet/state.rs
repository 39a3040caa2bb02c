//! What can be said of a guest at any time.

/// How a guest is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits for its turn to boot.
    Waiting,
    /// It boots.
    Booting,
    /// Its daemon has said hello.
    Up,
    /// It is up without a daemon: there is none, or it has said good-bye.
    Unmanaged,
    /// It is up, and another process has its port and its balloon: a host manager.
    Managed,
    /// Its QEMU has ended; the reason is in words.
    Ended(String),
}

impl State {
    /// One word for it.
    pub fn word(&self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Booting => "booting",
            State::Up => "up",
            State::Unmanaged => "unmanaged",
            State::Managed => "managed",
            State::Ended(_) => "ended",
        }
    }
}

/// What a guest did over its life, as its daemon told it and within what is possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The fewest and the most CPUs that were online.
    pub cpus_online: Option<(u32, u32)>,
    /// CPUs plugged.
    pub plugs: u32,
    /// CPUs unplugged.
    pub unplugs: u32,
    /// The largest pool, in pages.
    pub pool_pages_max: u64,
    /// Times the pool grew.
    pub grows: u32,
    /// Times the pool shrank.
    pub shrinks: u32,
}
