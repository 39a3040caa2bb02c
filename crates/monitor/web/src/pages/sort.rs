//! Order and filter of a table of guests, from the values in an address.

use crate::span::{Span, TimeQuery, segment};
use serde::Deserialize;

/// Maximum number of guests on a page, busiest first. Browsers need a second for a thousand guests.
pub(super) const ROWS: usize = 250;

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Asked {
    #[serde(flatten)]
    pub(super) time: TimeQuery,
    /// Column to sort by, largest values first.
    #[serde(default)]
    pub(super) sort: String,
    /// Text to search for in the guests' name or class.
    #[serde(default)]
    pub(super) filter: String,
    /// `all` shows all rows.
    #[serde(default)]
    pub(super) rows: String,
}

/// Returns the address of the same page in another order.
pub(super) fn address(asked: &Asked, span: &Span, sort: &str) -> String {
    let value = |name: &str, text: &str| match text {
        "" => String::new(),
        text => format!("&{name}={}", segment(text)),
    };
    format!("/?{}{}{}", span.query(), value("sort", sort), value("filter", &asked.filter))
}
