//! A guest as its host sees it, without asking the guest: what of it is in memory and in swap,
//! what it had to be read back, and how long it waited for that.

use crate::machine::per_second;
use counters::Bytes;
use hypervisor::{ProcessId, ProcessView};

/// Rates of a guest's process over the last seconds. What cannot be seen is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// What of it the host has swapped out.
    pub swapped: Option<Bytes>,
    /// Faults a second for which the host had to read.
    pub major_faults_s: Option<f64>,
    /// Time in which some task of its cgroup waited for memory, in thousandths.
    pub psi_permille: Option<f64>,
}

/// Counters at a moment.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at_ms: u64,
    major_faults: Option<u64>,
    psi_us: Option<u64>,
}

/// The process of a guest.
#[derive(Debug, Default)]
pub struct Outside {
    view: Option<ProcessView>,
    /// Its user may be believed where the host sees nothing.
    is_trusted: bool,
    hugepages: Bytes,
    mark: Option<Mark>,
    /// What was seen last.
    pub seen: Seen,
}

impl Outside {
    /// Watches a process; nothing is seen of one that is not known or not there. Of a user who is
    /// not trusted only what is seen counts: any process may have memory of which the swapped part
    /// cannot be seen.
    pub fn new(process: Option<ProcessId>, is_trusted: bool) -> Outside {
        let view = process.and_then(ProcessView::open);
        let mut outside = Outside { view, is_trusted, ..Outside::default() };
        outside.look_at_swap();
        outside
    }

    /// What of it is in the host's memory now.
    pub fn resident(&self) -> Option<Bytes> {
        Some(self.view.as_ref()?.resident()?.plus(self.hugepages))
    }

    /// Reads what of it the host has swapped out, and its pages of other sizes.
    pub fn look_at_swap(&mut self) {
        let apart = self.view.as_ref().and_then(ProcessView::apart).unwrap_or_default();
        self.hugepages = apart.hugepages;
        self.seen.swapped = match apart.hides_swap && self.is_trusted {
            true => None,
            false => apart.swapped,
        };
    }

    /// Reads the rest, which costs more and is not needed every second.
    pub fn look(&mut self, now_ms: u64) {
        let Some(view) = &self.view else { return };
        let now = Mark {
            at_ms: now_ms,
            major_faults: view.stat().map(|stat| stat.major_faults),
            psi_us: view.pressure_us(),
        };
        let before = self.mark.replace(now);
        self.look_at_swap();
        if let Some(then) = before {
            let window_ms = now_ms.saturating_sub(then.at_ms);
            self.seen.major_faults_s = per_second(now.major_faults, then.major_faults, window_ms);
            let psi_us_s = per_second(now.psi_us, then.psi_us, window_ms);
            self.seen.psi_permille = psi_us_s.map(|us| us / 1000.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_known_shows_nothing() {
        let mut outside = Outside::new(None, true);
        outside.look(1000);
        assert_eq!((outside.resident(), outside.seen), (None, Seen::default()));
    }

    #[test]
    fn rates_take_two_looks_at_a_process() {
        let mut outside = Outside::new(ProcessId::of(std::process::id()), false);
        assert!(outside.resident() > Some(Bytes::ZERO));
        outside.look(1000);
        assert_eq!(outside.seen.major_faults_s, None);
        outside.look(2000);
        assert!(outside.seen.major_faults_s.is_some());
        assert!(outside.seen.swapped.is_some());
    }
}
