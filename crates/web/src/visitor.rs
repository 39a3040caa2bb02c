//! Who asks.

use crate::access::Origin;
use crate::fault::Fault;
use axum::http::{HeaderMap, StatusCode};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// How a connection came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// By an address: a session is let in.
    Tcp(Origin),
    /// By a unix socket: whom its mode lets in is let in, unless there is a password.
    Unix(Origin),
}

impl Via {
    /// The origin of a request. At a unix socket a proxy asks for others, and says for whom: the
    /// last of what it says is what it saw itself.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_believed_at_a_unix_socket_only_and_what_it_saw_itself() {
        let origin = |via: Via, said: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for one in said {
                headers.append("x-forwarded-for", one.parse().unwrap());
            }
            via.origin(&headers)
        };
        let at = |text: &str| Origin::of(text.parse().unwrap());
        let proxy = Via::Unix(Origin::User(33));
        // A browser may send the head too: a proxy adds to what it was sent.
        assert_eq!(origin(proxy, &["10.9.9.9, 192.0.2.7"]), at("192.0.2.7"));
        assert_eq!(origin(proxy, &["10.9.9.9", "2001:db8::7"]), at("2001:db8::7"));
        assert_eq!(origin(proxy, &["unknown"]), Origin::User(33));
        assert_eq!(origin(proxy, &[]), Origin::User(33));
        assert_eq!(origin(Via::Tcp(Origin::Local), &["192.0.2.7"]), Origin::Local);
    }
}
