//! The metrics' two ways out: served to who scrapes, and pushed to an engine.
//!
//! ```text
//!   the monitor's thread ─┬─► Sink: Pushing ─► Recording
//!                         │            └─► Pusher, a thread that waits for the engine
//!                         └─► the newest moment ─► the manager's turn: Feed ─► Scrape
//! ```
//!
//! What goes wrong on the far side is told once, and holds nobody up.

use crate::config::MetricsSettings;
use crate::monitor::Sink;
use crate::scrape::Scrape;
use metrics::{Latest, Pusher};
use model::{GuestIdentity, Moment};
use reactor::{Event, PollSet};

/// The version that the metrics tell.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is served in the manager's turns; without settings for it nothing is.
#[derive(Debug, Default)]
pub struct Feed {
    scrape: Option<Scrape>,
}

impl Feed {
    /// Opens what the settings ask for. What cannot be opened is told, and is no reason not to
    /// manage guests.
    pub fn open(settings: &MetricsSettings) -> (Feed, Option<String>) {
        let Some(listen) = &settings.listen else { return (Feed::default(), None) };
        let version = VERSION.to_owned();
        match Scrape::open(listen, host_name(settings), version, settings.processes) {
            Ok(scrape) => (Feed { scrape: Some(scrape) }, None),
            Err(error) => {
                let text = format!("Metrics are not served at {}: {error}", listen.shown());
                (Feed::default(), Some(text))
            }
        }
    }

    /// Whether anybody could see what is published.
    pub fn is_open(&self) -> bool {
        self.scrape.is_some()
    }

    /// The newest values. A guest that is left out of them is shown as it was, while it is
    /// present.
    pub fn publish(&mut self, moment: &Moment, is_present: &dyn Fn(&GuestIdentity) -> bool) {
        self.scrape.iter_mut().for_each(|scrape| scrape.publish(moment, is_present));
    }

    /// Adds what it waits for.
    pub fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        self.scrape.iter().for_each(|scrape| scrape.fds(set));
    }

    /// When it wants its next turn, even if nothing can be read.
    pub fn next_ms(&self) -> u64 {
        self.scrape.as_ref().map_or(u64::MAX, Scrape::next_ms)
    }

    /// Takes what has come, by which of its descriptors are ready.
    pub fn turn(&mut self, ready: &[Event], now_ms: u64) {
        self.scrape.iter_mut().for_each(|scrape| scrape.turn(ready, now_ms));
    }
}

/// A sink that pushes what goes through it.
pub struct Pushing {
    beyond: Option<Box<dyn Sink>>,
    pusher: Pusher,
    /// What has come since the last push.
    pending: Latest,
    interval_ms: i64,
    next_ms: i64,
    /// What was told last of its troubles.
    told: Option<String>,
    lost: u64,
}

/// Puts a sink that pushes before another one, if the settings ask for it, and gives what
/// stands in its way.
pub fn pushing(
    settings: &MetricsSettings,
    beyond: Option<Box<dyn Sink>>,
) -> (Option<Box<dyn Sink>>, Option<String>) {
    let Some(url) = &settings.remote_write else { return (beyond, None) };
    match Pusher::start(url.clone(), host_name(settings), VERSION.to_owned()) {
        Ok(pusher) => {
            let sink = Pushing {
                beyond,
                pusher,
                pending: Latest::new(settings.processes),
                interval_ms: i64::try_from(settings.interval_ms).unwrap_or(i64::MAX),
                next_ms: i64::MIN,
                told: None,
                lost: 0,
            };
            (Some(Box::new(sink)), None)
        }
        Err(error) => (beyond, Some(format!("Metrics are not pushed to {url}: {error}"))),
    }
}

impl Pushing {
    /// Offers what has come, and gives what there is to say about the pushing.
    fn push(&mut self, moment: &Moment) -> Option<String> {
        // A guest that has not run is left out, as it is of the recordings.
        self.pending.take(moment, &|_| true);
        // Half a second is not waited for: moments come about once a second.
        let is_due = moment.at_ms.saturating_add(500) >= self.next_ms;
        let is_early = self.next_ms.saturating_sub(moment.at_ms) > self.interval_ms;
        if is_due || is_early {
            self.next_ms = moment.at_ms.saturating_add(self.interval_ms);
            self.pusher.offer(&self.pending.take_out());
        }
        let health = self.pusher.health();
        let is_first_loss = health.lost > 0 && self.lost == 0;
        self.lost = health.lost;
        if health.trouble != self.told {
            let text = match &health.trouble {
                Some(trouble) => format!("Metrics are not pushed: {trouble}"),
                None => "Metrics are pushed again".to_owned(),
            };
            self.told = health.trouble;
            return Some(text);
        }
        is_first_loss.then(|| {
            "Too many metrics wait to be pushed: new ones are lost until some are taken".to_owned()
        })
    }
}

impl Sink for Pushing {
    fn record(&mut self, moment: &Moment) -> Option<String> {
        let pushed = self.push(moment);
        let recorded = self.beyond.as_mut().and_then(|sink| sink.record(moment));
        match (pushed, recorded) {
            (Some(pushed), Some(recorded)) => Some(format!("{pushed}. {recorded}")),
            (pushed, recorded) => pushed.or(recorded),
        }
    }

    fn finish(&mut self) -> Option<String> {
        self.beyond.as_mut().and_then(|sink| sink.finish())
    }
}

/// What the host is called: as the settings say, or its kernel.
fn host_name(settings: &MetricsSettings) -> String {
    if let Some(name) = &settings.host {
        return name.clone();
    }
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}
