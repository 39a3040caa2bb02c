//! What load to put on whom.

use crate::target::check_path;
use crate::{Error, TARGETS_MAX, Target};
use std::time::Duration;

/// Each client has a socket, and one poll looks at all of them.
pub const CLIENTS_MAX: usize = 10_000;
/// Requests a second: more than one thread can start here.
pub const RATE_MAX: f64 = 1_000_000.0;
/// The longest load: a day, of which every second has its own count.
pub const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);

/// When requests begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Each client asks again as soon as it is answered, without think time, and goes from target
    /// to target.
    Closed {
        /// How many.
        clients: usize,
        /// How far apart a client's requests usually are. If it is given, the results have a
        /// second histogram, in which an answer that took longer stands for all those requests
        /// that the client would have sent meanwhile.
        expected_interval: Option<Duration>,
    },
    /// Requests begin on a schedule, whether others are answered or not.
    Open {
        /// Requests a second.
        rate: f64,
        /// Requests under way at once. Those beyond it wait, and their time counts.
        in_flight_max: usize,
    },
    /// The same at times and to targets by chance, as if many clients knew nothing of each other:
    /// the gaps between requests are distributed exponentially.
    Random {
        /// Requests a second, on average.
        rate: f64,
        /// Requests under way at once. Those beyond it wait, and their time counts.
        in_flight_max: usize,
        /// The same number gives the same times and targets.
        seed: u64,
    },
    /// Every target is asked once, in turn.
    Once {
        /// How many are asked at a time.
        clients: usize,
    },
}

/// What becomes of a connection after its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Every request has its own, as in the published study.
    Close,
    /// It serves later requests to the same target.
    KeepAlive,
}

/// A load.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Whom to ask.
    pub targets: Vec<Target>,
    /// When.
    pub pattern: Pattern,
    /// For how long new requests begin. A pattern that ends by itself may end before.
    pub duration: Duration,
    /// A request that is not answered in this time, from its intended beginning, has failed.
    pub timeout: Duration,
    /// Connections.
    pub reuse: Reuse,
}

impl Plan {
    /// Says what of it cannot be done.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |field, reason: String| Err(Error::Plan { field, reason });
        if self.targets.is_empty() {
            return wrong("targets", "there is none to ask".to_owned());
        }
        if self.targets.len() > TARGETS_MAX {
            return wrong("targets", format!("more than {TARGETS_MAX} are too many"));
        }
        for target in &self.targets {
            check_path(&target.path).map_err(|reason| Error::Target {
                text: target.name.clone(),
                reason: reason.to_owned(),
            })?;
        }
        if self.duration > DURATION_MAX {
            return wrong("duration", "it may be a day at most".to_owned());
        }
        if self.timeout.is_zero() || self.timeout > DURATION_MAX {
            return wrong("timeout", "it must be more than nothing, and a day at most".to_owned());
        }
        if !(1..=CLIENTS_MAX).contains(&self.slots()) {
            return wrong("clients", format!("there may be 1 to {CLIENTS_MAX}"));
        }
        match self.pattern {
            Pattern::Open { rate, .. } | Pattern::Random { rate, .. }
                if !(rate > 0.0 && rate <= RATE_MAX) =>
            {
                wrong("rate", format!("it must be more than 0 and at most {RATE_MAX} a second"))
            }
            Pattern::Closed { expected_interval: Some(interval), .. } if interval.is_zero() => {
                wrong("expected interval", "it must be more than nothing".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Requests that may be under way at once.
    pub(crate) fn slots(&self) -> usize {
        match self.pattern {
            Pattern::Closed { clients, .. } | Pattern::Once { clients } => clients,
            Pattern::Open { in_flight_max, .. } | Pattern::Random { in_flight_max, .. } => {
                in_flight_max
            }
        }
    }
}
