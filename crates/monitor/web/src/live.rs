//! Current data from the manager. While at least one page is open, one request per second serves
//! all viewers. These requests never reach the guests.

use crate::clock::steady_ms;
use crate::source::{Error, Source};
use crate::who::find;
use manager::control::{Answer, Ask, GuestRow, Ps, Whose};
use model::{GuestField, Over};
use reports::Single;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// Interval between two requests to the manager.
const TURN: Duration = Duration::from_secs(1);
/// Maximum age of data that are reused for a page.
const FRESH_MS: u64 = 900;

/// Data of the last second, with the state of the guests at its end.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) single: Single,
    pub(crate) ps: Ps,
}

impl Seen {
    /// Returns the monitor's data about a guest.
    pub(crate) fn over(&self, row: &GuestRow) -> Option<&Over<GuestField>> {
        let mut guests = self.single.interval().guests.iter();
        guests.find(|(who, _)| row.is_of(who)).map(|(_, over)| over)
    }

    /// Returns the row of the guest with this key from an address.
    pub(crate) fn row(&self, key: &str) -> Option<&GuestRow> {
        find(&self.ps.guests, key, |row| (&row.name, &row.uuid))
    }
}

/// Result of the last request to the manager.
pub(crate) type Looked = Result<Arc<Seen>, Arc<str>>;

/// Requests the manager's data and distributes them.
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

    /// Returns the current data. Blocks until the manager has responded.
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

    /// Subscribes to the data of each second.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<Looked>> {
        let receiver = self.sender.subscribe();
        self.wanted.notify_one();
        receiver
    }

    /// Requests data for as long as a page is open.
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
