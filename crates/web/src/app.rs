//! The pages' addresses, and what every request passes on its way to them.

use crate::access::{Bucket, Heads, Names, Origin, Password, Refusal, Tries, check};
use crate::clock::steady_ms;
use crate::entry::{Entry, Scheme, token_of, without_token};
use crate::fault::Fault;
use crate::live::Live;
use crate::room::Place;
use crate::source::Sources;
use crate::visitor::{Via, Visitor};
use crate::{Error, Settings, assets, pages, squeeze};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use maud::Markup;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;
use why::when::Now;

/// Recordings that are read at once: each takes a core.
pub(crate) const READERS: usize = 2;
/// Pages that wait for that; more are sent away.
const WAITING_MAX: usize = 64;
/// Browsers that are kept up to date at once.
const WATCHERS_MAX: usize = 128;
/// What is sent to us is a form of a few words.
const BODY_MAX: usize = 4 * 1024;
/// What is to be said on the next page, of sessions.
const SAID_MAX: usize = 64;

/// How often strangers and sessions may ask.
#[derive(Debug)]
struct Limits {
    strangers: Tries,
    visitors: Bucket,
}

/// What all requests share.
pub(crate) struct App {
    pub(crate) sources: Sources,
    pub(crate) live: Arc<Live>,
    pub(crate) allow_changes: bool,
    pub(crate) began_ms: u64,
    readers: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    pub(crate) watchers: Arc<Semaphore>,
    names: Names,
    pub(crate) entry: Entry,
    /// What came of a change, for the page that follows it, by the session's form key.
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
        let Settings { allow_changes, mut sources, tell, .. } = settings;
        let now_ms = steady_ms();
        Ok(App {
            live: Arc::new(Live::new(sources.manager.take())),
            sources,
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

    fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What time it is.
    pub(crate) fn now(&self) -> Now {
        (self.sources.clock)()
    }

    /// Makes a page where waiting holds nobody else up.
    pub(crate) async fn make(
        self: Arc<App>,
        work: impl FnOnce(&App) -> Result<Markup, Fault> + Send + 'static,
    ) -> Response {
        match self.read(work).await {
            Ok(page) => page.into_html(),
            Err(fault) => pages::fault(&fault),
        }
    }

    /// Does what may take a while: so many at once, and so many that wait.
    pub(crate) async fn read<T: Send + 'static>(
        self: Arc<App>,
        work: impl FnOnce(&App) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let busy = || {
            Fault::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "Too many pages are asked for at once: try again",
            )
        };
        let place = self.waiting.clone().try_acquire_owned().map_err(|_| busy())?;
        let turn = self.readers.clone().acquire_owned().await.map_err(|_| busy())?;
        let app = self.clone();
        // Who has asked may have left: the work goes on, and keeps its place.
        let work = move || {
            let made = work(&app);
            drop((turn, place));
            made
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(made) => made,
            Err(_) => Err(Fault::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "This page cannot be made: that is a fault of pinhead's",
            )),
        }
    }

    /// Says something on the next page of a visitor.
    pub(crate) fn say(&self, visitor: &Visitor, text: String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= SAID_MAX {
            said.clear();
        }
        said.insert(visitor.form_key.clone(), text);
    }

    /// What is to be said on this page.
    pub(crate) fn take_said(&self, visitor: &Visitor) -> Option<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).remove(&visitor.form_key)
    }
}

/// A page as an answer.
pub(crate) trait IntoHtml {
    fn into_html(self) -> Response;
}

impl IntoHtml for Markup {
    fn into_html(self) -> Response {
        let kind = HeaderValue::from_static("text/html; charset=utf-8");
        ([(header::CONTENT_TYPE, kind)], self.into_string()).into_response()
    }
}

fn too_often() -> Response {
    pages::fault(&Fault::new(
        StatusCode::TOO_MANY_REQUESTS,
        "That was asked for too often: wait a moment",
    ))
}

/// All addresses.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(pages::overview))
        .route("/guest/{key}", get(pages::guest))
        .route("/guest/{key}/set", post(pages::set))
        .route("/reserve", post(pages::reserve))
        .route("/login", post(pages::login))
        .route("/logout", post(pages::logout))
        .route("/decisions", get(pages::decisions))
        .route("/reports", get(pages::reports))
        .route("/report/{name}", get(pages::report))
        .route("/tune", get(pages::tune))
        .route("/farms", get(pages::farms))
        .route("/about", get(pages::about))
        .route("/events", get(pages::events))
        .route("/assets/{name}", get(assets::serve))
        .fallback(pages::nowhere)
        .method_not_allowed_fallback(pages::not_so)
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(from_fn_with_state(app.clone(), guarded))
        .with_state(app)
}

/// What every answer says of itself.
const HEADS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
         object-src 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    // Not `no-referrer`: a browser then says of our own forms that they come from nowhere.
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-frame-options", "DENY"),
    ("permissions-policy", "interest-cohort=()"),
];

/// Lets a request through to its page, or not.
async fn guarded(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let is_squeezed = squeeze::is_taken(request.headers());
    let (visitor, mut answer) = admitted(&app, request, next).await;
    let heads = answer.headers_mut();
    if visitor.is_none() {
        // Who was not let in holds no connection.
        heads.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    for (name, value) in HEADS {
        heads.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if !heads.contains_key(header::CACHE_CONTROL) {
        heads.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if is_squeezed { squeeze::squeezed(answer).await } else { answer }
}

/// Who asks, and what they get.
async fn admitted(app: &App, mut request: Request, next: Next) -> (Option<Visitor>, Response) {
    let via = request.extensions().get::<Via>().copied();
    // A connection of which nothing is known is treated as one from elsewhere.
    let via = via.unwrap_or(Via::Tcp(Origin::Unknown));
    let headers = request.headers();
    let head = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let heads = Heads {
        host: head("host"),
        origin: head("origin"),
        site: head("sec-fetch-site"),
        mode: head("sec-fetch-mode"),
    };
    if let Err(refusal) = check(request.method(), heads, &app.names) {
        let (status, why) = match refusal {
            Refusal::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                "These pages are not this name's: name it with --name if a proxy is in front of \
                 them",
            ),
            Refusal::Site => (
                StatusCode::FORBIDDEN,
                "Another site's page has sent this, and only pages of ours may",
            ),
        };
        return (None, pages::fault(&Fault::new(status, why)));
    }
    let visitor = app.entry.visitor(via, headers);
    let uri = request.uri();
    let token = token_of(uri).filter(|_| *request.method() == Method::GET);
    if let Some(token) = token {
        match (app.entry.by_token(token, uri), &visitor) {
            (Some(entered), _) => return (visitor, entered),
            // It has no place in an address that is kept.
            (None, Some(_)) => {
                let place = [(header::LOCATION, without_token(uri))];
                return (visitor, (StatusCode::SEE_OTHER, place, "").into_response());
            }
            (None, None) => {}
        }
    }
    let is_for_strangers = uri.path() == "/login" || uri.path().starts_with("/assets/");
    let is_often = {
        let mut limits = app.limits();
        match visitor.is_some() {
            true => !limits.visitors.take(steady_ms()),
            false => !limits.strangers.may(via.origin(headers), steady_ms()),
        }
    };
    if is_often {
        return (visitor, too_often());
    }
    let Some(visitor) = visitor else {
        let stranger = |why| {
            let to = without_token(uri);
            pages::stranger(StatusCode::UNAUTHORIZED, why, &to, app.entry.has_password())
        };
        let answer = match token {
            _ if is_for_strangers => next.run(request).await,
            None => stranger(""),
            Some(_) => stranger(
                "This token is not good, or not any more: each opens the pages once, within \
                     ten minutes.",
            ),
        };
        return (None, answer);
    };
    if let Some(place) = request.extensions().get::<Place>() {
        place.is_known();
    }
    request.extensions_mut().insert(visitor.clone());
    (Some(visitor), next.run(request).await)
}
