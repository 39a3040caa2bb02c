//! What the manager sees now. It is asked once a second while somebody looks, however many they
//! are, and not at all while nobody does. No guest is asked for it.

use crate::clock::steady_ms;
use crate::source::{Error, Source};
use crate::who::find;
use manager::control::{Answer, Ask, GuestRow, Ps, Whose};
use model::{GuestField, Over};
use reports::Single;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// How often the manager is asked.
const TURN: Duration = Duration::from_secs(1);
/// What is younger is good enough for a page.
const FRESH_MS: u64 = 900;

/// The last second, and how guests are at its end.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) single: Single,
    pub(crate) ps: Ps,
}

impl Seen {
    /// What the monitor saw of a guest.
    pub(crate) fn over(&self, row: &GuestRow) -> Option<&Over<GuestField>> {
        let mut guests = self.single.interval().guests.iter();
        guests.find(|(who, _)| row.is_of(who)).map(|(_, over)| over)
    }

    /// The row of the guest that a key in an address stands for.
    pub(crate) fn row(&self, key: &str) -> Option<&GuestRow> {
        find(&self.ps.guests, key, |row| (&row.name, &row.uuid))
    }
}

/// What was seen, or why nothing was.
pub(crate) type Looked = Result<Arc<Seen>, Arc<str>>;

/// Asks, and passes on.
pub(crate) struct Live {
    source: Arc<dyn Source>,
    last: Mutex<Option<(u64, Looked)>>,
    sender: watch::Sender<Option<Looked>>,
    wanted: Notify,
}

impl Live {
    pub(crate) fn new(source: Arc<dyn Source>) -> Live {
        let (sender, _) = watch::channel(None);
        Live { source, last: Mutex::new(None), sender, wanted: Notify::new() }
    }

    fn last(&self) -> MutexGuard<'_, Option<(u64, Looked)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is now; waits for the manager.
    pub(crate) fn now(&self) -> Looked {
        if let Some((at_ms, looked)) = &*self.last()
            && steady_ms().saturating_sub(*at_ms) < FRESH_MS
        {
            return looked.clone();
        }
        let looked = self.look().map(Arc::new).map_err(|error| base::chain(&error).into());
        *self.last() = Some((steady_ms(), looked.clone()));
        looked
    }

    fn look(&self) -> Result<Seen, Error> {
        let interval = Ask::Interval { processes: Whose::Nobody };
        let Answer::Interval(passed) = self.source.ask(&interval)? else {
            return Err(Error::OtherAnswer);
        };
        let Answer::Ps(ps) = self.source.ask(&Ask::Ps)? else { return Err(Error::OtherAnswer) };
        Ok(Seen { single: Single::new(passed.interval(), Some(ps.guests.len())), ps })
    }

    /// What is seen from now on, second by second.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<Looked>> {
        let receiver = self.sender.subscribe();
        self.wanted.notify_one();
        receiver
    }

    /// Asks for as long as somebody watches.
    pub(crate) async fn run(self: Arc<Live>) {
        loop {
            if self.sender.receiver_count() == 0 {
                self.wanted.notified().await;
                continue;
            }
            let live = self.clone();
            if let Ok(looked) = tokio::task::spawn_blocking(move || live.now()).await {
                self.sender.send_replace(Some(looked));
            }
            tokio::time::sleep(TURN).await;
        }
    }
}
