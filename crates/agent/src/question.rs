//! The questions how a guest's memory is and when it wants to run, and whether they are answered.

/// After this many unanswered questions a daemon counts as gone.
const UNANSWERED_MAX: u32 = 3;

/// The newest question.
#[derive(Debug, Default)]
pub(crate) struct SampleQuestion {
    sequence: u32,
    asked_ms: u64,
    unanswered: u32,
}

/// The newest question for the next timer.
#[derive(Debug, Default)]
pub(crate) struct AlarmQuestion {
    sequence: u32,
    is_open: bool,
}

impl AlarmQuestion {
    /// Asks again: the number of the question.
    pub(crate) fn ask(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.is_open = true;
        self.sequence
    }

    /// Whether this is the answer to it; once.
    pub(crate) fn is_answered_by(&mut self, sequence: u32) -> bool {
        sequence == self.sequence && std::mem::take(&mut self.is_open)
    }
}

impl SampleQuestion {
    /// Asks again: the number of the question.
    pub(crate) fn ask(&mut self, now_ms: u64) -> u32 {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        self.asked_ms = now_ms;
        self.unanswered = self.unanswered.saturating_add(1);
        self.sequence
    }

    /// The daemon has sent something: it is there.
    pub(crate) fn answered(&mut self) {
        self.unanswered = 0;
    }

    /// When an answer was true at least: when it was asked for. `None` for the answer to a question
    /// that was put again meanwhile, which is no news.
    pub(crate) fn true_at(&self, sequence: u32, now_ms: u64) -> Option<u64> {
        match sequence {
            0 => Some(now_ms),
            sequence => (sequence == self.sequence).then_some(self.asked_ms),
        }
    }

    /// Whether the daemon answers, as far as it was asked.
    pub(crate) fn is_answered(&self) -> bool {
        self.unanswered < UNANSWERED_MAX
    }

    /// Whether one that was just asked may still be waited for.
    pub(crate) fn is_worth_waiting(&self) -> bool {
        self.unanswered <= UNANSWERED_MAX
    }
}
