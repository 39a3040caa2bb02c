//! Values in the cells of a table. A dash stands for an unknown value.

use base::Bytes;

const NONE: &str = "-";

pub(crate) fn mib(size: Option<Bytes>) -> String {
    number(size.map(Bytes::nearest_mib))
}

pub(crate) fn number(value: Option<u64>) -> String {
    value.map_or_else(|| NONE.into(), |value| value.to_string())
}

/// Formats thousandths as percent.
pub(crate) fn percent(permille: u64) -> String {
    format!("{}.{}", permille / 10, permille % 10)
}
