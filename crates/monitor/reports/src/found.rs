//! Errors of requests for data that are not recorded. Each error lists the data that are recorded.

use crate::Error;
use crate::gather::HostData;
use crate::options::Options;
use crate::plain::plain;
use crate::time::moment_text;
use base::nearest;
use model::GuestIdentity;
use std::collections::BTreeSet;

const NAMES_SHOWN: usize = 8;

/// Checks that the time range has data, and that the selection matches a guest of these data.
pub fn must_be_found(hosts: &[HostData], options: &Options<'_>) -> Result<(), Error> {
    if hosts.iter().all(|host| host.intervals.is_empty()) {
        let known = hosts.iter().filter_map(|host| host.recorded);
        let range = known.reduce(|(a, b), (from_ms, to_ms)| (a.min(from_ms), b.max(to_ms)));
        let hint = match range {
            Some((from_ms, to_ms)) => format!(
                "The recording covers {} to {}; choose a part with --from and --to",
                moment_text(from_ms, options.zone),
                moment_text(to_ms, options.zone)
            ),
            None => "The recording has no data yet".to_owned(),
        };
        return Err(Error::NothingRecorded { hint });
    }
    let Some(pattern) = options.pattern else { return Ok(()) };
    let intervals = || hosts.iter().flat_map(|host| &host.intervals);
    let guests = || intervals().flat_map(|interval| interval.guests.keys());
    if guests().any(|who| pattern.takes(who)) {
        return Ok(());
    }
    let names: BTreeSet<&str> = guests().map(|who| who.name.as_str()).collect();
    let classes = guests().map(|who: &GuestIdentity| who.class.as_str());
    let classes: BTreeSet<&str> = classes.filter(|class| !class.is_empty()).collect();
    let wanted = plain(pattern.text());
    let what = match pattern.is_name() {
        true => format!("No guest is called {wanted}"),
        false => format!("No guest's name or class matches {wanted}"),
    };
    let known = || names.iter().chain(classes.iter().filter(|_| !pattern.is_name()));
    let near = nearest(pattern.text(), known().copied());
    let hint = match (near.is_empty(), names.is_empty()) {
        (false, _) => format!("Similar names: {}", listed(near.into_iter())),
        (true, true) => "No guest is recorded in this time".to_owned(),
        (true, false) => {
            let of_classes = match classes.is_empty() || pattern.is_name() {
                true => String::new(),
                false => format!("; classes: {}", listed(classes.into_iter())),
            };
            format!("Guests of this time: {}{of_classes}", listed(names.into_iter()))
        }
    };
    Err(Error::NoGuest { what, hint })
}

/// Returns a guest's name as it is recorded. Its case may differ, if only one guest has the name.
pub fn recorded_name<'a>(name: &'a str, hosts: &'a [HostData]) -> &'a str {
    let intervals = hosts.iter().flat_map(|host| &host.intervals);
    let names = intervals.flat_map(|interval| interval.guests.keys()).map(|who| who.name.as_str());
    let alike: BTreeSet<&str> = names.filter(|known| known.eq_ignore_ascii_case(name)).collect();
    match (alike.contains(name), alike.first()) {
        (false, Some(&only)) if alike.len() == 1 => only,
        _ => name,
    }
}

/// Formats the first names, and the number of the others.
fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(NAMES_SHOWN);
    let mut text = names.take(NAMES_SHOWN).map(plain).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
