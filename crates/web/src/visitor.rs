//! Who asks.

use crate::fault::Fault;
use axum::http::StatusCode;
use std::net::IpAddr;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// How a connection came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// By an address, from another: who has a session is let in.
    Tcp(IpAddr),
    /// By a unix socket: whom its mode lets in is let in, unless there is a password.
    Unix,
}

impl Via {
    /// From where, where that is known.
    pub(crate) fn peer(self) -> Option<IpAddr> {
        match self {
            Via::Tcp(peer) => Some(peer),
            Via::Unix => None,
        }
    }
}

/// Who was let in.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    /// What a form has to send back: another site's page does not know it.
    pub(crate) form_key: Arc<str>,
}

impl Visitor {
    /// Whether a form is of this visitor's session.
    pub(crate) fn owns(&self, form_key: &str) -> Result<(), Fault> {
        match self.form_key.as_bytes().ct_eq(form_key.as_bytes()).into() {
            true => Ok(()),
            false => Err(Fault::new(
                StatusCode::FORBIDDEN,
                "This form is not of this session: open the page again",
            )),
        }
    }
}
