//! Extractors of a request's values. An extractor that fails returns a page with the reason.

use crate::fault::Fault;
use crate::pages::fault;
use axum::extract::{Form, FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use serde::de::DeserializeOwned;

/// Query values of an address.
#[derive(Debug)]
pub(crate) struct Values<T>(pub(crate) T);

/// Name in the path of an address.
#[derive(Debug)]
pub(crate) struct Name(pub(crate) String);

/// A form that a visitor has sent.
#[derive(Debug)]
pub(crate) struct Filled<T>(pub(crate) T);

fn wrong(what: &str, status: StatusCode, why: &str) -> Response {
    let why = base::plain(why, 200);
    fault(&Fault::new(status, format!("{what} is invalid: {why}")))
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Values<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Values<T>, Response> {
        let read = Query::try_from_uri(&parts.uri);
        read.map(|Query(values)| Values(values))
            .map_err(|error| wrong("This address", error.status(), &error.body_text()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Name, Response> {
        let read = Path::from_request_parts(parts, state).await;
        read.map(|Path(name)| Name(name))
            .map_err(|error| wrong("This address", error.status(), &error.body_text()))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Filled<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Filled<T>, Response> {
        let read = Form::from_request(request, state).await;
        read.map(|Form(values)| Filled(values))
            .map_err(|error| wrong("This form", error.status(), &error.body_text()))
    }
}
