//! Names from outside, made safe for a terminal, a table of values and a page.

/// More of a name is not shown: guests choose names, and no name makes a report unreadable.
const NAME_MAX: usize = 64;

/// The text without what a terminal obeys, cut to a length that any report can show.
pub(crate) fn plain(text: &str) -> String {
    base::plain(text, NAME_MAX)
}
