//! Login with the password, and logout.

use super::stranger;
use crate::app::App;
use crate::extract::Filled;
use crate::fault::Fault;
use crate::visitor::{Via, Visitor};
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
pub(crate) struct LoginForm {
    password: String,
    /// The requested page.
    #[serde(default)]
    to: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct LogoutForm {
    form_key: String,
}

/// Starts a session if the password is right.
pub(crate) async fn login(
    State(app): State<Arc<App>>,
    Extension(via): Extension<Via>,
    headers: HeaderMap,
    Filled(form): Filled<LoginForm>,
) -> Response {
    let LoginForm { password, to } = form;
    match app.entry.by_password(password, via.origin(&headers), &to).await {
        Ok(begun) => begun,
        Err(refused) => {
            let fault = Fault::from(refused);
            stranger(fault.status, &fault.message, &to, app.entry.has_password())
        }
    }
}

/// Ends a session.
pub(crate) async fn logout(
    State(app): State<Arc<App>>,
    Extension(visitor): Extension<Visitor>,
    Filled(form): Filled<LogoutForm>,
) -> Response {
    // The form may belong to another session, or to a page of another site.
    if let Err(fault) = visitor.owns(&form.form_key) {
        return super::fault(&fault);
    }
    app.entry.leave(&visitor);
    (StatusCode::SEE_OTHER, [(header::LOCATION, "/")], "").into_response()
}
