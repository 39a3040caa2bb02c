//! The levers on the host's memory as they are shown: what each gained and cost.

use serde::{Deserialize, Serialize};

/// All levers, cheapest first, and what page-out did with each guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Levers {
    /// The levers.
    pub levers: Vec<LeverRow>,
    /// The guests, by name.
    pub guests: Vec<PagedOutRow>,
    /// CPU time of the manager without that of page-out, in microseconds since its start.
    pub manager_cpu_us: u64,
    /// How long the manager has run.
    pub uptime_ms: u64,
}

/// A lever. What it does not have, or nobody measures, is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeverRow {
    /// Its name: page-reporting, balloon, page-out, ksm.
    pub name: String,
    /// `on`, `off`, or why it rests.
    pub state: String,
    /// Why it is off.
    pub why: Option<String>,
    /// Guests that are there and have it, or were taken from by it.
    pub guests: Option<u64>,
    /// How often it was used.
    pub times: Option<u64>,
    /// What the host got by it: of KSM and the balloon now, of others since the manager's start.
    pub gained_bytes: Option<u64>,
    /// What that takes where it is now, if it is compressed.
    pub compressed_bytes: Option<u64>,
    /// CPU time since the manager's start, in microseconds.
    pub cost_us: Option<u64>,
    /// CPU time now, in percent of one core.
    pub cost_percent: Option<f64>,
    /// What came back of it.
    pub came_back_bytes: Option<u64>,
    /// What of that came back later than in the first look after a taking: promotion.
    pub promoted_bytes: Option<u64>,
    /// How often it had to rest because tasks of the host waited for memory.
    pub alarms: Option<u64>,
}

/// A guest, as page-out has it. Its name comes from outside: escape it before it is shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PagedOutRow {
    /// Its name.
    pub name: String,
    /// How it stands, such as `awake`, `out`, `rests`, `incompressible`.
    pub state: String,
    /// How often it was paged out.
    pub times: u64,
    /// When it was last, in milliseconds since 1970.
    pub at_ms: Option<i64>,
    /// What the host got then.
    pub gained_bytes: Option<u64>,
    /// What compressed memory grew by then.
    pub compressed_bytes: Option<u64>,
    /// CPU time of that, in microseconds.
    pub cost_us: Option<u64>,
    /// What came back of it since.
    pub came_back_bytes: Option<u64>,
    /// What it held a minute after: its working set, measured.
    pub working_set_bytes: Option<u64>,
}
