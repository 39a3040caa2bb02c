//! Parsers of the quantities of options, for clap. The crate `base` defines the grammar.

use crate::ValueError;
use base::duration::{self, parse_seconds};
use base::{Bad, Bytes, exact_size, parse_mib};
use std::ops::RangeInclusive;

/// Returns a parser of memory in MiB. A number without a unit means MiB.
pub(crate) fn mib(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, ValueError> + Clone + Send + Sync + 'static {
    within(parse_mib, range, |mib| exact_size(Bytes::mib(mib)))
}

/// Returns a parser of a time in seconds. A number without a unit means seconds.
pub(crate) fn seconds<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, ValueError> + Clone + Send + Sync + 'static {
    within(parse_seconds, range, |seconds| match seconds {
        0..60 => format!("{seconds}s"),
        _ => duration::show(i64::try_from(seconds * 1000).unwrap_or(i64::MAX)),
    })
}

fn within<T: TryFrom<u64>>(
    parse: fn(&str) -> Result<u64, Bad>,
    range: RangeInclusive<u64>,
    show: fn(u64) -> String,
) -> impl Fn(&str) -> Result<T, ValueError> + Clone + Send + Sync + 'static {
    move |text| {
        let value = parse(text)?;
        let fits = range.contains(&value).then_some(value);
        fits.and_then(|value| T::try_from(value).ok()).ok_or_else(|| ValueError::Outside {
            least: show(*range.start()),
            most: show(*range.end()),
        })
    }
}

/// Parses a percentage of a whole, and returns it in thousandths.
pub(crate) fn part(text: &str) -> Result<u64, Bad> {
    base::parse_percent(text, base::WHOLE)
}

/// Checks a length of time that is parsed later.
pub(crate) fn span(text: &str) -> Result<String, Bad> {
    duration::parse_ms(text).map(|_| text.to_owned())
}
