//! Addresses of the pages, and the checks of every request.

use crate::access::{Heads, Origin, Refusal, check};
use crate::app::App;
use crate::clock::steady_ms;
use crate::entry::{token_of, without_token};
use crate::fault::Fault;
use crate::room::Place;
use crate::visitor::{Via, Visitor};
use crate::{assets, pages, squeeze};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::sync::Arc;

/// Maximum length of a request's body, in bytes. A form contains only a few words.
const BODY_MAX: usize = 4 * 1024;

fn too_often() -> Response {
    pages::fault(&Fault::new(StatusCode::TOO_MANY_REQUESTS, "Too many requests: wait a moment"))
}

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

const HEADS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
         object-src 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    // With `no-referrer`, browsers would send `Origin: null` with forms of these pages.
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-frame-options", "DENY"),
    ("permissions-policy", "interest-cohort=()"),
];

/// Serves or refuses a request, and sets the response's headers.
async fn guarded(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let is_squeezed = squeeze::is_taken(request.headers());
    let (visitor, mut answer) = admitted(&app, request, next).await;
    let heads = answer.headers_mut();
    if visitor.is_none() {
        // The connection of a stranger is closed after the response.
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

/// Returns the visitor of a request, if there is a visitor, and the response.
async fn admitted(app: &App, mut request: Request, next: Next) -> (Option<Visitor>, Response) {
    let via = request.extensions().get::<Via>().copied();
    // A connection of unknown origin counts as a connection from another machine.
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
                "This host name is not a name of these pages: if a proxy is in front of the pages, \
                 add the name with --name",
            ),
            Refusal::Site => (
                StatusCode::FORBIDDEN,
                "A page of another site sent this request: open these pages and repeat your action",
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
            // A used token must not stay in the address that a browser stores.
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
                "This token is wrong or used: each token opens the pages once, within \
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
