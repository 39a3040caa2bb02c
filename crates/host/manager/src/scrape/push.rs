//! Push of metrics to a metrics server. Each moment is pushed before it is recorded.
//!
//! ```text
//!   the monitor's thread ─► Sink: MetricsPush ─► Recording
//!                                  └─► Pusher, a thread that waits for the engine
//! ```
//!
//! A problem at the server is reported once, and delays nothing.

use crate::config::MetricsSettings;
use crate::monitor::Sink;
use metrics::{Latest, Pusher};
use model::{Moment, PassInput};

/// Version in the metrics.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A sink that pushes all moments.
pub struct MetricsPush {
    next_sink: Option<Box<dyn Sink>>,
    pusher: Pusher,
    /// Values since the last push.
    pending: Latest,
    interval_ms: i64,
    next_ms: i64,
    /// Last reported problem.
    last_trouble: Option<String>,
    lost: u64,
}

/// Returns a sink that pushes moments and also hands them to `next_sink`, if configured. Also
/// returns the reason if pushing cannot start.
pub fn pushing(
    settings: &MetricsSettings,
    next_sink: Option<Box<dyn Sink>>,
) -> (Option<Box<dyn Sink>>, Option<String>) {
    let Some(url) = &settings.remote_write else { return (next_sink, None) };
    match Pusher::start(url.clone(), host_name(settings), VERSION.to_owned()) {
        Ok(pusher) => {
            let sink = MetricsPush {
                next_sink,
                pusher,
                pending: Latest::new(settings.processes),
                interval_ms: i64::try_from(settings.interval_ms).unwrap_or(i64::MAX),
                next_ms: i64::MIN,
                last_trouble: None,
                lost: 0,
            };
            (Some(Box::new(sink)), None)
        }
        Err(error) => (next_sink, Some(format!("Metrics are not pushed to {url}: {error}"))),
    }
}

impl MetricsPush {
    /// Offers new values to the pusher, and returns a message about a problem of the push.
    fn push(&mut self, moment: &Moment) -> Option<String> {
        // A guest that has not run is left out, as in the recordings.
        self.pending.take(moment, &|_| true);
        // Half a second of delay is tolerated, because moments arrive about once a second.
        let is_due = moment.at_ms.saturating_add(500) >= self.next_ms;
        let is_early = self.next_ms.saturating_sub(moment.at_ms) > self.interval_ms;
        if is_due || is_early {
            self.next_ms = moment.at_ms.saturating_add(self.interval_ms);
            self.pusher.offer(&self.pending.take_out());
        }
        let health = self.pusher.health();
        let is_first_loss = health.lost > 0 && self.lost == 0;
        self.lost = health.lost;
        if health.trouble != self.last_trouble {
            let text = match &health.trouble {
                Some(trouble) => format!("Metrics cannot be pushed: {trouble}"),
                None => "Metrics are pushed again".to_owned(),
            };
            self.last_trouble = health.trouble;
            return Some(text);
        }
        is_first_loss.then(|| {
            "Too many metrics wait to be pushed: new metrics are lost until the server accepts \
             some"
                .to_owned()
        })
    }
}

impl Sink for MetricsPush {
    fn record(&mut self, moment: &Moment) -> Option<String> {
        let pushed = self.push(moment);
        let recorded = self.next_sink.as_mut().and_then(|sink| sink.record(moment));
        match (pushed, recorded) {
            (Some(pushed), Some(recorded)) => Some(format!("{pushed}. {recorded}")),
            (pushed, recorded) => pushed.or(recorded),
        }
    }

    fn passes(&mut self, passes: &[PassInput]) -> Option<String> {
        self.next_sink.as_mut().and_then(|sink| sink.passes(passes))
    }

    fn finish(&mut self) -> Option<String> {
        self.next_sink.as_mut().and_then(|sink| sink.finish())
    }
}

/// Returns the name of the host from the settings, or else from the kernel.
pub(crate) fn host_name(settings: &MetricsSettings) -> String {
    if let Some(name) = &settings.host {
        return name.clone();
    }
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}
