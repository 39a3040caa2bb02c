//! The levers on the host's memory, which are the means to gain memory, with gain and cost.

use serde::{Deserialize, Serialize};

/// All levers, cheapest first, and the effects of page-out on each guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Levers {
    pub levers: Vec<LeverRow>,
    /// The guests, by name.
    pub guests: Vec<PagedOutRow>,
    /// CPU time of the manager without page-out, in microseconds since its start.
    pub manager_cpu_us: u64,
    /// Time since the manager's start.
    pub uptime_ms: u64,
}

/// A lever. A value that the lever does not have, or that is not measured, is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeverRow {
    /// Name of the lever: page-reporting, balloon, page-out, ksm.
    pub name: String,
    /// State: `on`, `off`, or the reason for a pause.
    pub state: String,
    /// Reason for being off.
    pub why: Option<String>,
    /// Present guests that have the lever, or from which the lever has reclaimed memory.
    pub guests: Option<u64>,
    /// Number of uses.
    pub times: Option<u64>,
    /// Memory gained for the host: now for KSM and the balloon, since the manager's start for other
    /// levers.
    pub gained_bytes: Option<u64>,
    /// Size of the gained memory in compressed swap, if it is compressed.
    pub compressed_bytes: Option<u64>,
    /// CPU time since the manager's start, in microseconds.
    pub cost_us: Option<u64>,
    /// CPU time now, in percent of one core.
    pub cost_percent: Option<f64>,
    /// Reclaimed memory that became resident again.
    pub came_back_bytes: Option<u64>,
    /// Part of `came_back_bytes` that became resident again only after the first check that follows
    /// a page-out (promotion).
    pub promoted_bytes: Option<u64>,
    /// Number of pauses because tasks of the host waited for memory.
    pub alarms: Option<u64>,
}

/// Page-out of a guest. The name comes from outside, so escape it before display.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PagedOutRow {
    /// Name of the guest.
    pub name: String,
    /// State, such as `awake`, `out`, `rests`, `incompressible`.
    pub state: String,
    /// Number of page-outs.
    pub times: u64,
    /// Time of the last page-out, in milliseconds since 1970.
    pub at_ms: Option<i64>,
    /// Memory gained for the host by the last page-out.
    pub gained_bytes: Option<u64>,
    /// Growth of compressed memory by the last page-out.
    pub compressed_bytes: Option<u64>,
    /// CPU time of the last page-out, in microseconds.
    pub cost_us: Option<u64>,
    /// Memory that has become resident again since.
    pub came_back_bytes: Option<u64>,
    /// Memory resident a minute after the page-out: the measured working set.
    pub working_set_bytes: Option<u64>,
}
