//! Parsers of text from visitors that need no server, manager or session. The parsers are public so
//! that fuzzers can call these functions with any text.

use crate::access::{Heads, Names, Origin, Password, check};
use crate::entry::{Entry, Scheme, own_page};
use crate::pages::{SetForm, change};
use crate::span::{Span, TimeQuery};
use crate::visitor::Via;
use axum::extract::Query;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use manager::control::Change;
use std::net::{Ipv4Addr, SocketAddr};
use why::when::Now;

/// Maximum number of intervals of a page.
pub const POINTS: i64 = 120;
/// Address of the pages.
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8420);
/// Name of a proxy in front of the pages.
const PROXY: &str = "pinhead.example";
/// User of the proxy.
const PROXY_USER: u32 = 33;

/// Time range of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// Start, in milliseconds since 1970.
    pub from_ms: i64,
    /// End, in milliseconds since 1970.
    pub to_ms: i64,
    /// Length of an interval.
    pub step_ms: i64,
    /// The time range, encoded for an address.
    pub query: String,
}

fn values<T: serde::de::DeserializeOwned>(query: &str) -> Result<T, String> {
    let uri: Uri = format!("/?{query}").parse().map_err(|_| "it is not an address".to_owned())?;
    Query::try_from_uri(&uri).map(|Query(values)| values).map_err(|error| error.body_text())
}

/// Parses the time range in an address.
pub fn times(query: &str, now: &Now) -> Result<Times, String> {
    let asked: TimeQuery = values(query)?;
    let span = Span::of(&asked, POINTS, now).map_err(|fault| fault.message)?;
    let query = span.query();
    let Span { from_ms, to_ms, step_ms, .. } = span;
    Ok(Times { from_ms, to_ms, step_ms, query })
}

/// Returns the page of this server that a form redirects to.
pub fn page(to: &str) -> String {
    own_page(to)
}

/// Parses the form of a change.
pub fn changed(form: &str) -> Result<Change, String> {
    let form: SetForm = values(form)?;
    change(&form.what, &form.value)
}

/// Returns true if a request with these values of `Host`, `Origin`, `Sec-Fetch-Site` and
/// `Sec-Fetch-Mode` is served.
pub fn is_served(changes: bool, [host, origin, site, mode]: [Option<&str>; 4]) -> bool {
    let names = Names::of_address(ADDRESS, false, &[PROXY.to_owned()]);
    let method = if changes { Method::POST } else { Method::GET };
    check(&method, Heads { host, origin, site, mode }, &names).is_ok()
}

/// Returns true if a browser with this cookie gets access although there is no session.
pub fn is_let_in(cookie: &[u8]) -> bool {
    let names = Names::of_address(ADDRESS, false, &[]);
    let entry = Entry::new(&names, Scheme::Http, None, Box::new(|_| ()));
    let value = HeaderValue::from_bytes(cookie);
    let (Ok(entry), Ok(value)) = (entry, value) else { return false };
    let headers = HeaderMap::from_iter([(header::COOKIE, value)]);
    entry.visitor(Via::Tcp(Origin::Local), &headers).is_some()
}

/// Returns the origins of two requests with this `X-Forwarded-For`, as text. The first request
/// arrives on a TCP address, and the second on the socket of a proxy.
pub fn origins(forwarded: &[u8]) -> [String; 2] {
    let Ok(value) = HeaderValue::from_bytes(forwarded) else { return Default::default() };
    let name = header::HeaderName::from_static("x-forwarded-for");
    let headers = HeaderMap::from_iter([(name, value)]);
    let proxy = Via::Unix(Origin::User(PROXY_USER));
    [Via::Tcp(Origin::Local), proxy].map(|via| format!("{:?}", via.origin(&headers)))
}

/// Returns the error in a password file's line.
pub fn password_fault(text: &str) -> Option<&'static str> {
    Password::of(text).err()
}
