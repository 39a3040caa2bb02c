//! Event stream of current values, once a second. An event contains only the changed values.

use super::columns::{GUEST, HOST, cell, fields};
use super::guest::values_now;
use super::layout::Local;
use super::overview::{BUDGET, budget};
use crate::app::App;
use crate::extract::Values;
use crate::live::Looked;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use reports::chart::OWNERS;
use reports::{Scope, clock_text};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, watch};

/// Maximum number of events of a stream. The stream then ends, and the browser reconnects before
/// the connection reaches its maximum age.
const TURNS_MAX: u32 = 540;
/// Interval of keep-alive comments.
const SIGN: Duration = Duration::from_secs(15);

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Asked {
    /// A guest, by name or UUID. Empty for all guests.
    #[serde(default)]
    guest: Option<String>,
}

struct News {
    app: Arc<App>,
    receiver: watch::Receiver<Option<Looked>>,
    guest: Option<String>,
    sent: Sent,
    turns: u32,
    _place: OwnedSemaphorePermit,
}

pub(crate) async fn events(State(app): State<Arc<App>>, Values(asked): Values<Asked>) -> Response {
    let Ok(place) = app.watchers.clone().try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "Too many browsers have live pages open")
            .into_response();
    };
    let news = News {
        receiver: app.live.watch(),
        app,
        guest: asked.guest,
        sent: Sent::default(),
        turns: 0,
        _place: place,
    };
    let stream = unfold(news, |mut news| async move {
        if news.turns >= TURNS_MAX {
            return None;
        }
        news.turns += 1;
        let looked = loop {
            news.receiver.changed().await.ok()?;
            if let Some(looked) = news.receiver.borrow_and_update().clone() {
                break looked;
            }
        };
        let event = Event::default().data(news.text(&looked));
        Some((Ok::<_, Infallible>(event), news))
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(SIGN)).into_response()
}

impl News {
    fn text(&mut self, looked: &Looked) -> String {
        let now = self.app.now();
        let at = clock_text(now.ms - now.ms.rem_euclid(1_000), &Local(&now));
        let value = match (&self.guest, looked) {
            (Some(key), Ok(seen)) => {
                let values = values_now(seen, key);
                let state = seen.row(key).map_or("gone", |row| row.state_name());
                let texts: serde_json::Map<String, serde_json::Value> = values
                    .into_iter()
                    .map(|(field, value)| (field.id.to_owned(), cell(field, value).into()))
                    .chain([("state".to_owned(), state.into())])
                    .collect();
                serde_json::json!({"at": at, "now": texts})
            }
            _ => self.sent.news(looked, &at),
        };
        value.to_string()
    }
}

/// Last values sent on a stream.
#[derive(Debug, Default)]
struct Sent {
    has_begun: bool,
    guests: BTreeMap<u64, Vec<String>>,
    host: BTreeMap<&'static str, String>,
}

impl Sent {
    /// Returns the changed values, as JSON.
    fn news(&mut self, looked: &Looked, at: &str) -> serde_json::Value {
        let seen = match looked {
            Ok(seen) => seen,
            Err(why) => {
                // When the data return, the page may show values of another time, so all values are
                // sent again.
                *self = Sent::default();
                return serde_json::json!({"trouble": &**why});
            }
        };
        let mut host = serde_json::Map::new();
        let values = fields(Scope::Host, &HOST).into_iter().chain(fields(Scope::Host, OWNERS));
        let texts = values.map(|field| (field.id, cell(field, seen.single.host(field.id))));
        for (id, text) in texts.chain([(BUDGET, budget(seen))]) {
            if self.host.get(id) != Some(&text) {
                host.insert(id.to_owned(), text.clone().into());
                self.host.insert(id, text);
            }
        }
        let columns = fields(Scope::Guest, &GUEST);
        let mut rows = serde_json::Map::new();
        let mut keys = BTreeMap::new();
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let mut is_changed = false;
        for row in &seen.ps.guests {
            let over = seen.over(row);
            let mut texts = vec![row.state_name().to_owned()];
            let value = |id: &str| seen.single.guest(over?, id);
            texts.extend(columns.iter().map(|field| cell(field, value(field.id))));
            let before = self.guests.remove(&row.id);
            is_changed |= before.is_none() && !is_first;
            let mut changes = serde_json::Map::new();
            let ids = std::iter::once("state").chain(columns.iter().map(|field| field.id));
            for (at, id) in ids.enumerate() {
                let text = &texts[at];
                if before.as_ref().and_then(|before| before.get(at)) != Some(text) {
                    changes.insert(id.to_owned(), text.clone().into());
                }
            }
            if !changes.is_empty() {
                rows.insert(row.id.to_string(), changes.into());
            }
            keys.insert(row.id, texts);
        }
        is_changed |= !self.guests.is_empty();
        self.guests = keys;
        serde_json::json!({"at": at, "now": host, "rows": rows, "changed": is_changed})
    }
}
