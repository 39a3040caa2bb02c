//! Requests for a guest's memory statistics and next timer, and their answers.

/// Number of unanswered requests after which a daemon counts as gone.
const UNANSWERED_MAX: u32 = 3;

/// The newest request for memory statistics.
#[derive(Debug, Default)]
pub(crate) struct SampleQuestion {
    sequence: u32,
    asked_ms: u64,
    unanswered: u32,
}

/// The newest request for the next timer.
#[derive(Debug, Default)]
pub(crate) struct AlarmQuestion {
    sequence: u32,
    is_open: bool,
}

impl AlarmQuestion {
    /// Starts a request, and returns its number.
    pub(crate) fn ask(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.is_open = true;
        self.sequence
    }

    /// Returns true once if this is the answer to the newest request.
    pub(crate) fn is_answered_by(&mut self, sequence: u32) -> bool {
        sequence == self.sequence && std::mem::take(&mut self.is_open)
    }
}

impl SampleQuestion {
    /// Starts a request, and returns its number.
    pub(crate) fn ask(&mut self, now_ms: u64) -> u32 {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        self.asked_ms = now_ms;
        self.unanswered = self.unanswered.saturating_add(1);
        self.sequence
    }

    /// Notes that the daemon has sent a message, and is therefore alive.
    pub(crate) fn answered(&mut self) {
        self.unanswered = 0;
    }

    /// Returns the earliest time at which an answer was valid, which is the time of the request.
    /// Returns `None` if the request was repeated since, because this answer may be older.
    pub(crate) fn true_at(&self, sequence: u32, now_ms: u64) -> Option<u64> {
        match sequence {
            0 => Some(now_ms),
            sequence => (sequence == self.sequence).then_some(self.asked_ms),
        }
    }

    /// Returns true if the daemon answers its requests.
    pub(crate) fn is_answered(&self) -> bool {
        self.unanswered < UNANSWERED_MAX
    }

    /// Returns true if an answer to the current request is likely enough to wait for it.
    pub(crate) fn is_worth_waiting(&self) -> bool {
        self.unanswered <= UNANSWERED_MAX
    }
}
