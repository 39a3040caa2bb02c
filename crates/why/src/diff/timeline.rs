//! Two policies' targets for one guest, followed through time.

use store::{Decision, Policy};

/// Targets that differ by more than one part in so many have parted: 1 %.
const PARTED: u64 = 100;
/// Milliseconds in an hour.
const HOUR: f64 = 3_600_000.0;
const MIB: f64 = (1 << 20) as f64;

/// A target and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The size that the guest is to have.
    pub bytes: u64,
    /// The clause that decided.
    pub clause: String,
    /// The policy's reason.
    pub reason: String,
}

/// A time in which the two policies would have the guest at another size, shown by the moment
/// at which they were furthest apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parting {
    /// When it began.
    pub from_ms: i64,
    /// When it ended, or the end of the time that was asked for.
    pub to_ms: i64,
    /// What the policy in force wanted.
    pub active: Target,
    /// What its shadow wanted.
    pub shadow: Target,
}

impl Parting {
    fn apart(&self) -> u64 {
        self.active.bytes.abs_diff(self.shadow.bytes)
    }
}

/// All about one guest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Total {
    /// When its targets were apart; the first ones, if there are very many.
    pub partings: Vec<Parting>,
    /// How many there were.
    pub count: u64,
    /// For how long in all.
    pub parted_ms: i64,
    /// For how long both targets were known.
    pub known_ms: i64,
    /// How much more memory the shadow would have had the guest hold, in MiB times hours;
    /// below 0 for less.
    pub mib_hours: f64,
    /// Decisions of the policy in force that moved the guest.
    pub active_moves: u64,
    /// The same of its shadow.
    pub shadow_moves: u64,
}

/// The two targets so far.
#[derive(Debug)]
pub struct Timeline {
    at_ms: i64,
    active: Option<Target>,
    shadow: Option<Target>,
    open: Option<Parting>,
    total: Total,
    most: usize,
}

impl Timeline {
    /// Begins at a time, and lists at most so many partings.
    pub fn new(at_ms: i64, most: usize) -> Timeline {
        let total = Total::default();
        Timeline { at_ms, active: None, shadow: None, open: None, total, most }
    }

    /// What was in force already.
    pub fn begin(&mut self, decision: &Decision) {
        let target = Target {
            bytes: decision.to_bytes,
            clause: decision.clause.to_string(),
            reason: decision.reason.clone(),
        };
        match decision.policy {
            Policy::Active => self.active = Some(target),
            Policy::Shadow => self.shadow = Some(target),
        }
    }

    /// The next decision.
    pub fn decide(&mut self, decision: &Decision) {
        self.go_to(decision.at_ms);
        self.begin(decision);
        if decision.from_bytes != decision.to_bytes {
            match decision.policy {
                Policy::Active => self.total.active_moves += 1,
                Policy::Shadow => self.total.shadow_moves += 1,
            }
        }
    }

    /// From here on neither target is known.
    pub fn forget(&mut self, at_ms: i64) {
        self.go_to(at_ms);
        self.close();
        (self.active, self.shadow) = (None, None);
    }

    /// The end of the time.
    pub fn end(mut self, at_ms: i64) -> Total {
        self.go_to(at_ms);
        self.close();
        self.total
    }

    /// Accounts for the time up to here. Decisions of the same moment count together: only
    /// what stood for a while has parted.
    fn go_to(&mut self, at_ms: i64) {
        let (from_ms, long) = (self.at_ms, at_ms.saturating_sub(self.at_ms));
        if long <= 0 {
            return;
        }
        self.at_ms = at_ms;
        let (Some(active), Some(shadow)) = (&self.active, &self.shadow) else {
            self.close();
            return;
        };
        self.total.known_ms += long;
        let apart = active.bytes.abs_diff(shadow.bytes);
        if apart <= active.bytes.max(shadow.bytes) / PARTED {
            self.close();
            return;
        }
        self.total.parted_ms += long;
        let more = shadow.bytes as f64 - active.bytes as f64;
        self.total.mib_hours += more / MIB * (long as f64 / HOUR);
        let open = self.open.get_or_insert_with(|| Parting {
            from_ms,
            to_ms: at_ms,
            active: active.clone(),
            shadow: shadow.clone(),
        });
        open.to_ms = at_ms;
        if apart > open.apart() {
            (open.active, open.shadow) = (active.clone(), shadow.clone());
        }
    }

    fn close(&mut self) {
        let Some(parting) = self.open.take() else { return };
        self.total.count += 1;
        if self.total.partings.len() < self.most {
            self.total.partings.push(parting);
        }
    }
}
