//! Visitors, which are clients with access, and the kinds of their connections.

use crate::access::Origin;
use crate::fault::Fault;
use axum::http::{HeaderMap, StatusCode};
use std::sync::Arc;
use subtle::ConstantTimeEq;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// TCP: a session is required.
    Tcp(Origin),
    /// A Unix socket. The socket's mode controls access, unless there is a password.
    Unix(Origin),
}

impl Via {
    /// Returns the origin of a request. On a Unix socket a proxy sends the requests of its clients.
    /// The last entry of `X-Forwarded-For` is the address of the proxy's client.
    pub(crate) fn origin(self, headers: &HeaderMap) -> Origin {
        match self {
            Via::Tcp(origin) => origin,
            Via::Unix(origin) => {
                let last = headers.get_all("x-forwarded-for").iter().next_back();
                let last = last.and_then(|last| last.to_str().ok()?.rsplit(',').next());
                last.and_then(|last| last.trim().parse().ok()).map_or(origin, Origin::of)
            }
        }
    }
}

/// A client that has got access.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    /// Key that must be part of every form. The pages of other sites do not know the key.
    pub(crate) form_key: Arc<str>,
}

impl Visitor {
    /// Checks that a form belongs to this visitor's session.
    pub(crate) fn owns(&self, form_key: &str) -> Result<(), Fault> {
        match self.form_key.as_bytes().ct_eq(form_key.as_bytes()).into() {
            true => Ok(()),
            false => Err(Fault::new(
                StatusCode::FORBIDDEN,
                "This form belongs to another session: reload the page",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_on_a_unix_socket_is_trusted_for_the_last_address() {
        let origin = |via: Via, said: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for one in said {
                headers.append("x-forwarded-for", one.parse().unwrap());
            }
            via.origin(&headers)
        };
        let at = |text: &str| Origin::of(text.parse().unwrap());
        let proxy = Via::Unix(Origin::User(33));
        // If a browser sends this header, the proxy appends its own entry.
        assert_eq!(origin(proxy, &["10.9.9.9, 192.0.2.7"]), at("192.0.2.7"));
        assert_eq!(origin(proxy, &["10.9.9.9", "2001:db8::7"]), at("2001:db8::7"));
        assert_eq!(origin(proxy, &["unknown"]), Origin::User(33));
        assert_eq!(origin(proxy, &[]), Origin::User(33));
        assert_eq!(origin(Via::Tcp(Origin::Local), &["192.0.2.7"]), Origin::Local);
    }
}
