//! The settings of a checked file as text, together with the defaults of its missing keys.

use std::fmt::Write as _;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::read::{Key, NEEDED, Section};

/// Formats the settings that a file puts in force. A default is a comment: `#key = default`.
/// Tables inside a list are shown as the value of their key.
pub fn in_force(text: &str, sections: &[Section]) -> String {
    let tree = DeTable::parse_recoverable(text).0.into_inner();
    let mut out = String::new();
    for section in sections.iter().filter(|section| !section.name.contains('.')) {
        let name = section.name;
        match value(&tree, name) {
            _ if name.is_empty() => add(&mut out, "", section.keys, Some(&tree)),
            Some(DeValue::Table(table)) => {
                add(&mut out, &format!("[{name}]"), section.keys, Some(table))
            }
            Some(DeValue::Array(all)) => {
                for table in all.iter().filter_map(|entry| entry.get_ref().as_table()) {
                    add(&mut out, &format!("[[{name}]]"), section.keys, Some(table));
                }
            }
            // A section with keys that need a value describes the entries of a list.
            _ if section.keys.iter().any(|key| key.default == NEEDED) => {}
            _ => add(&mut out, &format!("[{name}]"), section.keys, None),
        }
    }
    out
}

fn add(out: &mut String, heading: &str, keys: &[Key], table: Option<&DeTable<'_>>) {
    if !heading.is_empty() {
        let _ = writeln!(out, "{heading}");
    }
    for key in keys {
        let _ = match table.and_then(|table| value(table, key.name)) {
            Some(value) => writeln!(out, "{} = {}", key.name, written(value)),
            None => writeln!(out, "#{} = {}", key.name, key.default),
        };
    }
}

fn value<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<&'t DeValue<'i>> {
    let mut all = table.iter();
    all.find(|(name, _)| name.get_ref() == key).map(|(_, value)| value.get_ref())
}

/// Formats a value as in a file, with escaped text.
fn written(value: &DeValue<'_>) -> String {
    let joined = |all: Vec<String>| all.join(", ");
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(date) => date.to_string(),
        DeValue::Array(all) => {
            let all = all.iter().map(|one| written(one.get_ref())).collect();
            format!("[{}]", joined(all))
        }
        DeValue::Table(table) => {
            let pair = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
                let name: &std::borrow::Cow<'_, str> = name.get_ref();
                format!("{} = {}", name.escape_debug(), written(value.get_ref()))
            };
            format!("{{ {} }}", joined(table.iter().map(pair).collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn key(name: &'static str, default: &'static str) -> Key {
        Key { name, default, doc: "" }
    }

    const SECTIONS: [Section; 6] = [
        Section { name: "", keys: &[key("name", "the file's name")] },
        Section { name: "host", keys: &[key("reserve", "3%"), key("budget", "all of it")] },
        Section { name: "ksm", keys: &[key("mode", "auto")] },
        Section { name: "class", keys: &[key("name", NEEDED), key("ports", "none")] },
        Section { name: "class.ports", keys: &[key("guest", NEEDED)] },
        Section { name: "user", keys: &[key("name", NEEDED)] },
    ];

    #[test]
    fn defaults_are_comments_and_values_are_as_written() {
        let text = "[host]\nbudget = '1G'\n[[class]]\nname = \"a\\u001b\"\n\
                    ports = [{ guest = 80, host = 0x10 }]\n[[class]]\nname = 'b'\n";
        assert_eq!(
            in_force(text, &SECTIONS),
            "#name = the file's name\n[host]\n#reserve = 3%\nbudget = \"1G\"\n[ksm]\n#mode = auto\n\
             [[class]]\nname = \"a\\u{1b}\"\nports = [{ guest = 80, host = 0x10 }]\n\
             [[class]]\nname = \"b\"\n#ports = none\n"
        );
    }
}
