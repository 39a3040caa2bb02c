//! Attribution of unrequested changes of a balloon to another manager.

/// Two unrequested changes of size within this time are attributed to another manager.
const FOREIGN_WINDOW_MS: u64 = 60_000;
/// Changes closer together than this count as one change.
const BREAK_MS: u64 = 3_000;
/// Time for which nothing is requested from a balloon that another manager moves.
const FOREIGN_MS: u64 = 600_000;
/// Time for which nothing is requested from a guest after one unexplained change.
const UNEXPLAINED_MS: u64 = 10_000;

/// Unexplained changes of a balloon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Trust {
    unexplained_ms: Option<u64>,
    foreign_until_ms: Option<u64>,
}

impl Trust {
    /// Returns true while another manager controls the balloon.
    pub fn is_foreign(&self, now_ms: u64) -> bool {
        self.foreign_until_ms.is_some_and(|until| now_ms < until)
    }

    /// Returns true if another manager moves the balloon, or an unexplained change is recent.
    pub fn is_disturbed(&self, now_ms: u64) -> bool {
        self.is_foreign(now_ms)
            || self.unexplained_ms.is_some_and(|at| now_ms < at + UNEXPLAINED_MS)
    }

    pub fn unexplained(&mut self, now_ms: u64) {
        let before = self.unexplained_ms.replace(now_ms);
        // Changes without a pause between them count as one change.
        let since_ms = before.map(|at| now_ms.saturating_sub(at));
        if since_ms.is_some_and(|ms| (BREAK_MS..=FOREIGN_WINDOW_MS).contains(&ms)) {
            self.foreign_until_ms = Some(now_ms + FOREIGN_MS);
        }
    }

    /// Returns the part that is remembered across a restart of the guest: moves by another manager.
    pub fn after_restart(&self) -> Trust {
        Trust { unexplained_ms: None, ..*self }
    }
}
