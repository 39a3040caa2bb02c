//! Labels of rows.

use model::{GuestIdentity, ProcessName};
use std::collections::{BTreeMap, BTreeSet};

/// Labels in the order of their names. An empty value means no label and is left out, as in
/// Prometheus.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// Maximum length of a value. A guest chooses its name, and servers cut or reject long values.
const VALUE_MAX: usize = 512;

pub(crate) fn of_host(host: &str) -> Labels {
    labels([("host", host)])
}

pub(crate) fn of_tier(host: &str, tier: &str) -> Labels {
    labels([("host", host), ("tier", tier)])
}

/// Maximum number of guests of one name, class and UUID. No host has more.
const NAMESAKES_MAX: u32 = 10_000;

/// Returns the labels of all guests. Guests with the same name, class and UUID would share a
/// series. The first such guest therefore keeps its name, and the other names get a suffix: the
/// process or a number.
pub(crate) fn of_guests<'a>(
    host: &str,
    guests: impl Iterator<Item = &'a GuestIdentity>,
) -> BTreeMap<&'a GuestIdentity, Labels> {
    let mut seen = BTreeSet::new();
    let mut found = BTreeMap::new();
    for who in guests {
        let mut given = of_guest(host, who, &who.name);
        if !seen.insert(given.clone()) {
            let numbers = who.pid.into_iter().chain(2..NAMESAKES_MAX);
            let mut others =
                numbers.map(|number| of_guest(host, who, &format!("{}~{number}", who.name)));
            match others.find(|other| seen.insert(other.clone())) {
                Some(other) => given = other,
                None => continue,
            }
        }
        found.insert(who, given);
    }
    found
}

fn of_guest(host: &str, who: &GuestIdentity, name: &str) -> Labels {
    labels([("class", &who.class), ("guest", name), ("host", host), ("uuid", &who.uuid)])
}

/// Returns the labels of a guest's identity: the labels on all of its metrics, and its boot and
/// process.
pub(crate) fn info(guest: &Labels, who: &GuestIdentity) -> Labels {
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let more = [
        ("boot", Some(bounded(&who.boot))),
        ("pid", number(who.pid.map(u64::from))),
        ("start_ticks", number(who.start_ticks)),
    ];
    sorted(guest, more.into_iter().filter_map(|(name, value)| Some((name, value?))))
}

pub(crate) fn of_process(guest: &Labels, process: &ProcessName) -> Labels {
    let pid = (process.pid > 0).then(|| ("pid", process.pid.to_string()));
    sorted(guest, [("process", bounded(&process.name))].into_iter().chain(pid))
}

fn sorted(guest: &Labels, more: impl Iterator<Item = (&'static str, String)>) -> Labels {
    let more = more.filter(|(_, value)| !value.is_empty());
    let mut all: Labels = guest.iter().cloned().chain(more).collect();
    all.sort_by_key(|(name, _)| *name);
    all
}

fn labels<const N: usize>(pairs: [(&'static str, &str); N]) -> Labels {
    let given = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    given.map(|(name, value)| (name, bounded(value))).collect()
}

/// Returns a value that every server accepts. The length of the value is limited. Zero bytes are
/// replaced, because some servers cut a text at a zero byte.
fn bounded(value: &str) -> String {
    value[..value.floor_char_boundary(VALUE_MAX)].replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_guests_of_one_name_have_two_series() {
        let one = GuestIdentity { name: "g".into(), pid: Some(1), ..GuestIdentity::default() };
        let two = GuestIdentity { pid: Some(2), ..one.clone() };
        let found = of_guests("h", [&one, &two].into_iter());
        assert_eq!(found[&one], [("guest", "g".to_owned()), ("host", "h".to_owned())]);
        assert_eq!(found[&two][0].1, "g~2");
    }

    #[test]
    fn report_h13_namesakes_without_a_process_have_series() {
        let named = |uuid: &str, boot: &str| GuestIdentity {
            uuid: uuid.into(),
            name: "windows".into(),
            boot: boot.into(),
            ..GuestIdentity::default()
        };
        let all = [
            named("/run/a.qmp", ""),
            named("/run/b.qmp", ""),
            named("12-34", "1"),
            named("12-34", "2"),
            named("12-34", "3"),
        ];
        let found = of_guests("h", all.iter());
        let series: BTreeSet<_> = found.values().collect();
        assert_eq!((found.len(), series.len()), (5, 5));
    }

    #[test]
    fn a_value_is_bounded_at_a_character() {
        assert_eq!(bounded(&"ü".repeat(VALUE_MAX)).len(), VALUE_MAX);
        assert_eq!(bounded("a\0b"), "a\u{fffd}b");
    }
}
