//! State that all requests share: sources, limits, and the threads that make pages.

use crate::access::{Bucket, Names, Password, Tries};
use crate::clock::steady_ms;
use crate::entry::{Entry, Scheme};
use crate::fault::Fault;
use crate::live::Live;
use crate::pages::{fault, html_response};
use crate::source::Source;
use crate::visitor::Visitor;
use crate::{Error, Settings};
use axum::http::StatusCode;
use axum::response::Response;
use maud::Markup;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;
use why::when::Now;

/// Maximum number of recordings that are read at the same time. Each read uses a whole CPU.
pub(crate) const READERS: usize = 2;
/// Maximum number of pages that wait for a reader. Further requests are refused.
const WAITING_MAX: usize = 64;
/// Maximum number of browsers that receive live updates at the same time.
const WATCHERS_MAX: usize = 128;
/// Maximum number of sessions with a message for their next page.
const SAID_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) strangers: Tries,
    pub(crate) visitors: Bucket,
}

pub(crate) struct App {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) live: Arc<Live>,
    pub(crate) allow_changes: bool,
    pub(crate) began_ms: u64,
    readers: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    pub(crate) watchers: Arc<Semaphore>,
    pub(crate) names: Names,
    pub(crate) entry: Entry,
    /// Results of changes, each shown on the next page of its session. The key is the session's
    /// form key.
    said: Mutex<BTreeMap<Arc<str>, String>>,
    limits: Mutex<Limits>,
}

impl App {
    pub(crate) fn new(
        settings: Settings,
        names: Names,
        scheme: Scheme,
        password: Option<Password>,
    ) -> Result<App, Error> {
        let Settings { allow_changes, source, tell, .. } = settings;
        let now_ms = steady_ms();
        Ok(App {
            live: Arc::new(Live::new(source.clone())),
            source,
            allow_changes,
            began_ms: now_ms,
            readers: Arc::new(Semaphore::new(READERS)),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            watchers: Arc::new(Semaphore::new(WATCHERS_MAX)),
            entry: Entry::new(&names, scheme, password, tell)?,
            names,
            said: Mutex::default(),
            limits: Mutex::new(Limits {
                strangers: Tries::new(60, 20),
                visitors: Bucket::new(400, 100, now_ms),
            }),
        })
    }

    pub(crate) fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Now {
        self.source.now()
    }

    /// Makes a page on a blocking thread, so that other requests do not wait for the page.
    pub(crate) async fn make(
        self: Arc<App>,
        work: impl FnOnce(&App) -> Result<Markup, Fault> + Send + 'static,
    ) -> Response {
        match self.read(work).await {
            Ok(page) => html_response(page),
            Err(wrong) => fault(&wrong),
        }
    }

    /// Runs slow work on a blocking thread. The numbers of running and of waiting jobs are limited.
    pub(crate) async fn read<T: Send + 'static>(
        self: Arc<App>,
        work: impl FnOnce(&App) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let busy = || {
            Fault::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "Too many pages are requested at the same time: try again",
            )
        };
        let place = self.waiting.clone().try_acquire_owned().map_err(|_| busy())?;
        let turn = self.readers.clone().acquire_owned().await.map_err(|_| busy())?;
        let app = self.clone();
        // The client may have disconnected. The work continues, and still counts as running.
        let work = move || {
            let made = work(&app);
            drop((turn, place));
            made
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(made) => made,
            Err(_) => Err(Fault::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "This page failed because of an error in pinhead",
            )),
        }
    }

    /// Stores a message for the next page of a visitor.
    pub(crate) fn say(&self, visitor: &Visitor, text: String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= SAID_MAX {
            said.clear();
        }
        said.insert(visitor.form_key.clone(), text);
    }

    /// Removes and returns the message for the visitor's page.
    pub(crate) fn take_said(&self, visitor: &Visitor) -> Option<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).remove(&visitor.form_key)
    }
}
