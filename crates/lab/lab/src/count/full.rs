//! Detection of a full machine: one rule for each resource that can run out. The most harmful
//! shortage is checked first.

use std::fmt;

const AVAILABLE_MIN_MIB: f64 = 512.0;
/// Minimum free part of swap. With less free swap, swap counts as full.
const SWAP_LEFT_MIN: f64 = 0.05;
/// Maximum time for a server's response. A slower server is useless.
const PROBE_MAX_S: f64 = 1.0;
/// Number of probes: enough that one late response does not change their median.
const PROBES: usize = 5;
/// Time without a new server after which the CPUs count as full.
const NO_MORE_S: f64 = 60.0;

/// State of a machine while servers start on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Standing {
    pub available_mib: f64,
    /// Size of the host's swap, and its free part.
    pub swap_mib: f64,
    pub swap_free_mib: f64,
    /// Times of the last probes, oldest first. A probe without a response has an infinite time.
    pub probes_s: Vec<f64>,
    /// Time since the last server came up, or since the start of the first server.
    pub since_last_s: f64,
}

/// The resource that ended a count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Full {
    Memory { available_mib: f64 },
    Swap { free_mib: f64, of_mib: f64 },
    Latency { median_s: f64 },
    Cpu { since_last_s: f64 },
}

/// Returns the resource that the machine has run out of, if any.
pub(super) fn full(now: &Standing) -> Option<Full> {
    if now.available_mib < AVAILABLE_MIN_MIB {
        return Some(Full::Memory { available_mib: now.available_mib });
    }
    if now.swap_free_mib < now.swap_mib * SWAP_LEFT_MIN {
        return Some(Full::Swap { free_mib: now.swap_free_mib, of_mib: now.swap_mib });
    }
    let last = now.probes_s.len().checked_sub(PROBES).and_then(|from| now.probes_s.get(from..));
    let median_s = last.and_then(|last| {
        let mut last = last.to_vec();
        last.sort_by(f64::total_cmp);
        last.get(PROBES / 2).copied()
    });
    match median_s.filter(|median_s| *median_s > PROBE_MAX_S) {
        Some(median_s) => Some(Full::Latency { median_s }),
        None if now.since_last_s > NO_MORE_S => Some(Full::Cpu { since_last_s: now.since_last_s }),
        None => None,
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Full::Memory { available_mib } => write!(
                f,
                "memory: only {available_mib:.0} MiB of the host are available, and the minimum is \
                 {AVAILABLE_MIN_MIB} MiB"
            ),
            Full::Swap { free_mib, of_mib } => {
                write!(f, "swap: only {free_mib:.0} of {of_mib:.0} MiB are free")
            }
            Full::Latency { median_s } => write!(
                f,
                "latency: the median of the last {PROBES} probes was {median_s:.1} s, and the \
                 maximum is {PROBE_MAX_S} s"
            ),
            Full::Cpu { since_last_s } => {
                write!(f, "CPU: no server has come up for {since_last_s:.0} s")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roomy() -> Standing {
        Standing {
            available_mib: 8000.0,
            swap_mib: 1000.0,
            swap_free_mib: 900.0,
            probes_s: vec![0.1; 9],
            since_last_s: 1.0,
        }
    }

    #[test]
    fn every_resource_that_runs_out_is_reported() {
        assert_eq!(full(&roomy()), None);
        let memory = Standing { available_mib: 500.0, ..roomy() };
        assert_eq!(full(&memory), Some(Full::Memory { available_mib: 500.0 }));
        let swap = Standing { swap_free_mib: 49.0, ..roomy() };
        assert_eq!(full(&swap), Some(Full::Swap { free_mib: 49.0, of_mib: 1000.0 }));
        let none = Standing { swap_mib: 0.0, swap_free_mib: 0.0, ..roomy() };
        assert_eq!(full(&none), None, "a host without swap has not run out of it");
        let cpu = Standing { since_last_s: 61.0, ..roomy() };
        assert_eq!(full(&cpu), Some(Full::Cpu { since_last_s: 61.0 }));
    }

    #[test]
    fn late_probes_end_the_count_if_most_are_late() {
        let with = |probes_s: &[f64]| full(&Standing { probes_s: probes_s.to_vec(), ..roomy() });
        assert_eq!(with(&[9.0, 9.0, 9.0, 9.0]), None, "four are too few");
        assert_eq!(with(&[9.0, 9.0, 9.0, 9.0, 0.1, 0.1, 0.1]), None, "early ones are forgotten");
        let late = [0.1, 0.1, 0.1, 0.1, f64::INFINITY, 2.0, 3.0];
        assert_eq!(with(&late), Some(Full::Latency { median_s: 2.0 }));
    }
}
