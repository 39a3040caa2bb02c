//! The schedule of a load: the target and the time of each client's next request. No I/O.

use crate::load::{Pattern, Plan};
use base::Rng;

/// Pause of a client after a failed request. Without a pause a client would send requests to a
/// refusing server as fast as possible, and failures would outnumber responses.
const PAUSE_US: u64 = 10_000;

/// The next action of a free client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send a request to this target. The latency counts from the intended time.
    Start {
        target: usize,
        intended_us: u64,
    },
    /// This request waited too long for a free client, and has failed.
    Overdue {
        target: usize,
        intended_us: u64,
    },
    Wait {
        until_us: u64,
    },
    End,
}

#[derive(Debug)]
pub(crate) struct Schedule {
    pattern: Pattern,
    targets: usize,
    duration_us: u64,
    timeout_us: u64,
    /// Number of requests started, for patterns in which all clients have a common schedule.
    given: u64,
    /// State of each client of a closed loop.
    clients: Vec<Client>,
    /// The random generator and the due time of the next random request.
    chance: Option<(Rng, f64)>,
}

#[derive(Clone, Copy, Debug)]
struct Client {
    target: usize,
    not_before_us: u64,
}

impl Schedule {
    pub(crate) fn new(plan: &Plan) -> Schedule {
        let targets = plan.targets.len();
        let clients = match plan.pattern {
            // The clients start at different targets, so that they do not all use one target.
            Pattern::Closed { clients, .. } => (0..clients)
                .map(|n| Client { target: n * targets / clients % targets, not_before_us: 0 })
                .collect(),
            Pattern::Open { .. } | Pattern::Random { .. } | Pattern::Once { .. } => Vec::new(),
        };
        let chance = match plan.pattern {
            Pattern::Random { seed, .. } => Some((Rng::new(seed), 0.0)),
            Pattern::Open { .. } | Pattern::Closed { .. } | Pattern::Once { .. } => None,
        };
        Schedule {
            pattern: plan.pattern,
            targets,
            duration_us: micros(plan.duration),
            timeout_us: micros(plan.timeout),
            given: 0,
            clients,
            chance,
        }
    }

    /// Returns the next action of a client without a request in progress.
    pub(crate) fn next(&mut self, client: usize, now_us: u64) -> Next {
        match self.pattern {
            Pattern::Closed { .. } => self.next_closed(client, now_us),
            Pattern::Open { rate, .. } => self.next_open(rate, now_us),
            Pattern::Random { rate, .. } => self.next_random(rate, now_us),
            Pattern::Once { .. } => self.next_once(now_us),
        }
    }

    /// Records a failed request of this client, which then pauses.
    pub(crate) fn failed(&mut self, client: usize, now_us: u64) {
        if let Some(client) = self.clients.get_mut(client) {
            client.not_before_us = now_us.saturating_add(PAUSE_US);
        }
    }

    fn next_closed(&mut self, client: usize, now_us: u64) -> Next {
        let Some(client) = self.clients.get_mut(client).filter(|_| now_us < self.duration_us)
        else {
            return Next::End;
        };
        if now_us < client.not_before_us {
            return Next::Wait { until_us: client.not_before_us.min(self.duration_us) };
        }
        let target = client.target;
        client.target = (target + 1) % self.targets;
        Next::Start { target, intended_us: now_us }
    }

    fn next_open(&mut self, rate: f64, now_us: u64) -> Next {
        // The time is computed from the request's number, so that rounding errors do not
        // accumulate.
        let intended_us = (self.given as f64 * 1e6 / rate) as u64;
        if intended_us >= self.duration_us {
            return Next::End;
        }
        if intended_us > now_us {
            return Next::Wait { until_us: intended_us };
        }
        let target = (self.given % self.targets as u64) as usize;
        self.given += 1;
        if now_us - intended_us >= self.timeout_us {
            return Next::Overdue { target, intended_us };
        }
        Next::Start { target, intended_us }
    }

    fn next_random(&mut self, rate: f64, now_us: u64) -> Next {
        let Some((rng, due_us)) = &mut self.chance else { return Next::End };
        let intended_us = *due_us as u64;
        if intended_us >= self.duration_us {
            return Next::End;
        }
        if intended_us > now_us {
            return Next::Wait { until_us: intended_us };
        }
        let target = rng.within(0, self.targets as u64 - 1) as usize;
        // The value is at least 0 and less than 1, so the logarithm is finite.
        let unit = (rng.draw() >> 11) as f64 / (1_u64 << 53) as f64;
        *due_us -= (1.0 - unit).ln() / rate * 1e6;
        if now_us - intended_us >= self.timeout_us {
            return Next::Overdue { target, intended_us };
        }
        Next::Start { target, intended_us }
    }

    fn next_once(&mut self, now_us: u64) -> Next {
        let target = usize::try_from(self.given).unwrap_or(usize::MAX);
        if target >= self.targets || now_us >= self.duration_us {
            return Next::End;
        }
        self.given += 1;
        Next::Start { target, intended_us: now_us }
    }
}

pub(crate) fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Reuse, parse_targets};
    use std::time::Duration;

    fn schedule(targets: &str, pattern: Pattern) -> Schedule {
        Schedule::new(&Plan {
            targets: parse_targets(targets, "web").unwrap(),
            pattern,
            duration: Duration::from_secs(2),
            timeout: Duration::from_secs(1),
            reuse: Reuse::Close,
        })
    }

    #[test]
    fn clients_of_a_closed_loop_start_at_different_targets() {
        let pattern = Pattern::Closed { clients: 2, expected_interval: None };
        let mut schedule = schedule("127.0.0.1:1-4", pattern);
        let target = |schedule: &mut Schedule, client| match schedule.next(client, 5) {
            Next::Start { target, intended_us: 5 } => target,
            next => panic!("{next:?}"),
        };
        let first: Vec<_> = (0..5).map(|_| target(&mut schedule, 0)).collect();
        assert_eq!(first, [0, 1, 2, 3, 0]);
        assert_eq!(target(&mut schedule, 1), 2);
        schedule.failed(1, 100);
        assert_eq!(schedule.next(1, 100), Next::Wait { until_us: 10_100 });
        assert_eq!(schedule.next(1, 2_000_000), Next::End);
    }

    #[test]
    fn an_open_loop_keeps_its_times_when_answers_are_late() {
        let mut schedule =
            schedule("127.0.0.1:1-3", Pattern::Open { rate: 10.0, in_flight_max: 1 });
        assert_eq!(schedule.next(0, 0), Next::Start { target: 0, intended_us: 0 });
        assert_eq!(schedule.next(0, 50_000), Next::Wait { until_us: 100_000 });
        assert_eq!(schedule.next(0, 350_000), Next::Start { target: 1, intended_us: 100_000 });
        assert_eq!(schedule.next(0, 1_400_000), Next::Overdue { target: 2, intended_us: 200_000 });
        for _ in 3..20 {
            assert!(!matches!(schedule.next(0, 2_000_000), Next::End | Next::Wait { .. }));
        }
        assert_eq!(schedule.next(0, 2_000_000), Next::End);
    }

    #[test]
    fn random_requests_reach_all_targets_and_are_repeatable() {
        let times = |seed| {
            let pattern = Pattern::Random { rate: 1000.0, in_flight_max: 1, seed };
            let mut schedule = schedule("127.0.0.1:1-4", pattern);
            let mut now_us = 0;
            let mut all = Vec::new();
            loop {
                match schedule.next(0, now_us) {
                    Next::Start { target, intended_us } => all.push((target, intended_us)),
                    Next::Wait { until_us } => now_us = until_us,
                    Next::End => return all,
                    Next::Overdue { .. } => panic!("no request is late"),
                }
            }
        };
        let all = times(7);
        assert_eq!(all, times(7));
        assert_ne!(all, times(8));
        // The expected number is 2,000: two seconds at a thousand requests per second. Each bound
        // is four standard deviations away from this number.
        assert!((1_820..2_180).contains(&all.len()), "{}", all.len());
        for target in 0..4 {
            let part = all.iter().filter(|(to, _)| *to == target).count();
            assert!((400..600).contains(&part), "{part} to {target}");
        }
        // About 37 % of exponential gaps are longer than the mean.
        let gaps = all.windows(2).map(|pair| pair[1].1 - pair[0].1);
        let long = gaps.filter(|gap| *gap > 1_000).count() * 100 / all.len();
        assert!((32..42).contains(&long), "{long} %");
    }

    #[test]
    fn a_wipe_sends_one_request_to_every_target() {
        let mut schedule = schedule("127.0.0.1:1-3", Pattern::Once { clients: 2 });
        for target in 0..3 {
            assert_eq!(schedule.next(target % 2, 7), Next::Start { target, intended_us: 7 });
        }
        assert_eq!(schedule.next(0, 8), Next::End);
    }
}
