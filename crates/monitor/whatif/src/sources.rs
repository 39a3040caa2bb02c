//! Sources of the guests that run now, for commands that change them.

use crate::Source;
use manager::control::GuestRow;
use std::collections::BTreeMap;

/// Sources of guests by their names. Without a manager or a farm every source is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources(BTreeMap<String, Source>);

impl Sources {
    /// Returns the sources of the guests of a manager and of farms.
    pub fn new<'a>(rows: &[GuestRow], farms: impl Iterator<Item = &'a str>) -> Sources {
        let mut found = BTreeMap::new();
        for row in rows {
            let source = if row.source.contains("://") { Source::Libvirt } else { Source::Other };
            // Guests of one name may have different sources.
            let entry = found.entry(row.name.clone()).or_insert(source);
            if *entry != source {
                *entry = Source::Unknown;
            }
        }
        for name in farms {
            let source = if found.get(name) == Some(&Source::Libvirt) {
                Source::Unknown
            } else {
                Source::Farm
            };
            found.insert(name.to_owned(), source);
        }
        Sources(found)
    }

    /// Returns the source of a guest.
    pub fn of(&self, name: &str) -> Source {
        self.0.get(name).copied().unwrap_or_default()
    }
}

impl FromIterator<(String, Source)> for Sources {
    fn from_iter<I: IntoIterator<Item = (String, Source)>>(all: I) -> Sources {
        Sources(all.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_is_farm_libvirt_other_or_unknown() {
        let row = |name: &str, source: &str| GuestRow {
            name: name.into(),
            source: source.into(),
            ..GuestRow::default()
        };
        let guests = vec![
            row("vm1", "qemu:///system"),
            row("g1", "/run/pinhead/up/1/g1.qmp"),
            row("plain", "/run/qemu/plain.qmp"),
            row("two", "qemu:///system"),
            row("two", "/run/qemu/two.qmp"),
            row("both", "qemu:///system"),
        ];
        let sources = Sources::new(&guests, ["g1", "both", "lone"].into_iter());
        let of = ["vm1", "g1", "plain", "two", "both", "lone", "none"].map(|name| sources.of(name));
        let expected = [
            Source::Libvirt,
            Source::Farm,
            Source::Other,
            Source::Unknown,
            Source::Unknown,
            Source::Farm,
            Source::Unknown,
        ];
        assert_eq!(of, expected);
    }
}
