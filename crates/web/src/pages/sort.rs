//! The order of a table of guests, and what is left out of it, as addresses have them.

use crate::span::{Span, TimeQuery, segment};
use serde::Deserialize;

/// Guests that a page has at once, the loudest: a browser takes a second for a thousand.
pub(super) const ROWS: usize = 250;

/// The table of guests that is asked for.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Asked {
    #[serde(flatten)]
    pub(super) time: TimeQuery,
    /// The column that it is sorted by, loudest first.
    #[serde(default)]
    pub(super) sort: String,
    /// Only guests whose name or class has this in it.
    #[serde(default)]
    pub(super) filter: String,
    /// `all` for more rows than are usual.
    #[serde(default)]
    pub(super) rows: String,
}

/// The address of the same page in another order.
pub(super) fn address(asked: &Asked, span: &Span, sort: &str) -> String {
    let value = |name: &str, text: &str| match text {
        "" => String::new(),
        text => format!("&{name}={}", segment(text)),
    };
    format!("/?{}{}{}", span.query(), value("sort", sort), value("filter", &asked.filter))
}
