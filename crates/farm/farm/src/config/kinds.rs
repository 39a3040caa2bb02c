//! Value types that only a farm's file has.

use settings::{Converted, DeValue, Wrong, shown, size, words, wrong};

pub(super) fn mib(value: &DeValue<'_>) -> Converted<u64> {
    size(value).map(|size| size.as_mib())
}

/// Parses a size such as `zram:64 MiB`, and returns it in MiB. The prefix names the kind of swap,
/// so that other kinds can be added later.
pub(super) fn swap(value: &DeValue<'_>) -> Converted<u64> {
    let text = words(value)?;
    let Some(amount) = text.strip_prefix("zram:") else {
        return wrong(format!("`{}` is not a valid swap of a guest", shown(&text)), SWAP_HELP);
    };
    base::parse_size(amount).map(|size| size.as_mib()).map_err(|bad| Wrong {
        message: format!("`{}`: {}", shown(amount), bad.kind),
        help: SWAP_HELP.to_owned(),
    })
}

const SWAP_HELP: &str = "write \"zram:64 MiB\"";
