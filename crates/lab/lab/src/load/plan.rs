//! The plan of a load: targets, pattern and limits.

use crate::load::target::check_path;
use crate::load::{Error, TARGETS_MAX, Target};
use std::time::Duration;

/// Maximum number of clients. Each client has a socket, and one poll watches all sockets.
pub const CLIENTS_MAX: usize = 10_000;
/// Maximum number of requests per second. One thread cannot start as many.
pub const RATE_MAX: f64 = 1_000_000.0;
/// Maximum length of a load: a day. Each second has a count.
pub const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);

/// The times at which requests begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Each client sends its next request right after the response, without think time, and cycles
    /// through the targets.
    Closed {
        /// Number of clients.
        clients: usize,
        /// Usual interval of a client's requests. With an interval, the results have a second
        /// histogram, in which a late response also counts for requests that the client would have
        /// sent meanwhile.
        expected_interval: Option<Duration>,
    },
    /// Requests begin on a schedule, whether earlier requests are answered or not.
    Open {
        /// Requests per second.
        rate: f64,
        /// Maximum requests in progress. Further requests wait, and their waiting time counts.
        in_flight_max: usize,
    },
    /// Requests begin at random times, to random targets, as if many clients were independent: the
    /// gaps between requests are distributed exponentially.
    Random {
        /// Requests per second, on average.
        rate: f64,
        /// Maximum requests in progress. Further requests wait, and their waiting time counts.
        in_flight_max: usize,
        /// Seed: the same number gives the same times and targets.
        seed: u64,
    },
    /// Every target gets one request, one target after the other.
    Once {
        /// Maximum requests in progress.
        clients: usize,
    },
}

/// The use of a connection after its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Every request has its own connection, as in the published study.
    Close,
    /// A connection serves later requests to the same target.
    KeepAlive,
}

/// A load.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Targets of the requests.
    pub targets: Vec<Target>,
    /// Times of the requests.
    pub pattern: Pattern,
    /// Time during which new requests begin. A load with a fixed number of requests may end
    /// earlier.
    pub duration: Duration,
    /// Time limit for a response, from the intended start of the request.
    pub timeout: Duration,
    /// Use of connections.
    pub reuse: Reuse,
}

impl Plan {
    /// Returns an error for an invalid plan.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |field, reason: String| Err(Error::Plan { field, reason });
        if self.targets.is_empty() {
            return wrong("targets", "there are no targets".to_owned());
        }
        if self.targets.len() > TARGETS_MAX {
            return wrong("targets", format!("there are more than {TARGETS_MAX} targets"));
        }
        for target in &self.targets {
            check_path(&target.path).map_err(|reason| Error::Target {
                text: target.name.clone(),
                reason: reason.to_owned(),
            })?;
        }
        if self.duration > DURATION_MAX {
            return wrong("duration", "the load must last at most a day".to_owned());
        }
        if self.timeout.is_zero() || self.timeout > DURATION_MAX {
            return wrong("timeout", "it must be more than zero, and at most a day".to_owned());
        }
        if !(1..=CLIENTS_MAX).contains(&self.slots()) {
            return wrong("clients", format!("the number must be 1 to {CLIENTS_MAX}"));
        }
        match self.pattern {
            Pattern::Open { rate, .. } | Pattern::Random { rate, .. }
                if !(rate > 0.0 && rate <= RATE_MAX) =>
            {
                wrong("rate", format!("it must be more than 0 and at most {RATE_MAX} a second"))
            }
            Pattern::Closed { expected_interval: Some(interval), .. } if interval.is_zero() => {
                wrong("expected interval", "it must be more than zero".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Returns the maximum number of requests in progress.
    pub fn slots(&self) -> usize {
        match self.pattern {
            Pattern::Closed { clients, .. } | Pattern::Once { clients } => clients,
            Pattern::Open { in_flight_max, .. } | Pattern::Random { in_flight_max, .. } => {
                in_flight_max
            }
        }
    }
}
