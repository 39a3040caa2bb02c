//! The past of hosts for reports and pages, from recordings on disk or from a metrics server's
//! samples.
//!
//! ```text
//!   place ─► recordings, journal
//!   recordings ─► local ──┬─► HostData ─► reports, web
//!   engine ─► engine ─────┘
//! ```

mod engine;
mod error;
mod local;
mod place;

pub use engine::engine;
pub use error::Error;
pub use local::{local, processor};
pub use place::{dir, journal_of, usual_end, usual_journal};

use crate::Needs;
use model::Gap;

/// A query for recorded data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Start, in milliseconds since 1970.
    pub from_ms: i64,
    /// End, in milliseconds since 1970.
    pub to_ms: i64,
    /// Length of an interval.
    pub step_ms: i64,
    /// Raw fields of guests and processes.
    pub needs: Needs,
}

impl Wanted {
    /// Cuts gaps to the time range of the query.
    fn within(&self, gaps: Vec<Gap>) -> Vec<Gap> {
        let cut = |gap: Gap| Gap {
            from_ms: gap.from_ms.max(self.from_ms),
            to_ms: gap.to_ms.min(self.to_ms),
            ..gap
        };
        gaps.into_iter().map(cut).collect()
    }
}
