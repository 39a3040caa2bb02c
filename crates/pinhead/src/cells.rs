//! Values in the cells of a table; a dash for what is not known.

use base::Bytes;

const NONE: &str = "-";

/// A size, in MiB.
pub(crate) fn mib(size: Option<Bytes>) -> String {
    number(size.map(Bytes::as_mib))
}

/// A number.
pub(crate) fn number(value: Option<u64>) -> String {
    value.map_or_else(|| NONE.into(), |value| value.to_string())
}

/// Thousandths as percent.
pub(crate) fn percent(permille: u64) -> String {
    format!("{}.{}", permille / 10, permille % 10)
}
