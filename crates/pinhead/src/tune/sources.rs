//! Sources of the guests that run now, for commands that change them.

use manager::control::{Answer, Ask, GuestRow, ask_manager};
use std::collections::BTreeMap;
use std::path::Path;
use whatif::Source;

/// Sources of guests by their names. Without a manager or a farm every source is unknown.
#[derive(Debug, Default)]
pub(crate) struct Sources(BTreeMap<String, Source>);

impl Sources {
    pub(crate) fn present(socket: Option<&Path>) -> Sources {
        // The advice is also useful without a manager or a farm.
        let rows = match ask_manager(socket, &Ask::Ps) {
            Ok(Answer::Ps(ps)) => ps.guests,
            Ok(_) | Err(_) => Vec::new(),
        };
        let farms = farm::running::tables().unwrap_or_default().farms;
        let names = farms.iter().flat_map(|table| &table.guests).map(|guest| guest.name.as_str());
        Sources::of_answers(&rows, names)
    }

    fn of_answers<'a>(rows: &[GuestRow], farms: impl Iterator<Item = &'a str>) -> Sources {
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

    #[cfg(test)]
    pub(crate) fn known(all: &[(&str, Source)]) -> Sources {
        Sources(all.iter().map(|(name, source)| ((*name).to_owned(), *source)).collect())
    }

    pub(crate) fn of(&self, name: &str) -> Source {
        self.0.get(name).copied().unwrap_or_default()
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
        let sources = Sources::of_answers(&guests, ["g1", "both", "lone"].into_iter());
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
