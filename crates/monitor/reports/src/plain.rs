//! Names from outside, made safe for terminals, CSV and HTML.

/// Maximum length of a name. Guests choose their names, and no name may make a report unreadable.
const NAME_MAX: usize = 64;

/// Removes control characters and cuts the text to `NAME_MAX`.
pub(crate) fn plain(text: &str) -> String {
    base::plain(text, NAME_MAX)
}
