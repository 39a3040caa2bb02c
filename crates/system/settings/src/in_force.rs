//! The settings of a checked file as text, together with the defaults of its missing keys.

use std::fmt::Write as _;

use base::is_plain;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::read::{Key, NEEDED, Section};

/// Formats the settings that a file puts in force, as TOML that can be read again. A default is a
/// comment: `#key = value` if the default can be written as a value, or else `# key: words`. Tables
/// inside a list are shown as the value of their key.
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
            None => match default_value(key.default) {
                Some(value) => writeln!(out, "#{} = {value}", key.name),
                None => writeln!(out, "# {}: {}", key.name, key.default),
            },
        };
    }
}

/// Returns a default as a value in a file: a truth value, a number, or a quantity with its unit.
/// Other defaults are descriptions, such as "none".
fn default_value(words: &str) -> Option<String> {
    if matches!(words, "true" | "false") || words.parse::<i64>().is_ok() {
        return Some(words.to_owned());
    }
    let unit = words.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_number = unit.len() < words.len();
    let unit = unit.trim_start();
    let is_unit = !unit.is_empty() && unit.chars().all(|c| c.is_ascii_alphabetic() || c == '%');
    (is_number && is_unit).then(|| quoted(words))
}

/// Formats a text as a string of TOML.
pub fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        let _ = match c {
            '"' | '\\' => write!(out, "\\{c}"),
            c if is_plain(c) => write!(out, "{c}"),
            c => write!(out, "\\U{:08x}", u32::from(c)),
        };
    }
    out + "\""
}

fn value<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<&'t DeValue<'i>> {
    let mut all = table.iter();
    all.find(|(name, _)| name.get_ref() == key).map(|(_, value)| value.get_ref())
}

/// Formats a value as in a file, with escaped text.
fn written(value: &DeValue<'_>) -> String {
    let joined = |all: Vec<String>| all.join(", ");
    match value {
        DeValue::String(text) => quoted(text),
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
                let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                let is_bare = !name.is_empty() && name.chars().all(is_bare);
                let name = if is_bare { name.to_string() } else { quoted(name) };
                format!("{name} = {}", written(value.get_ref()))
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
            "# name: the file's name\n[host]\n#reserve = \"3%\"\nbudget = \"1G\"\n[ksm]\n\
             # mode: auto\n[[class]]\nname = \"a\\U0000001b\"\n\
             ports = [{ guest = 80, host = 0x10 }]\n[[class]]\nname = \"b\"\n# ports: none\n"
        );
    }

    #[test]
    fn printed_settings_are_the_same_when_they_are_read_again() {
        let text = "name = \"a\\\"\\\\'\\n\\u0000\\u202e\"\n[host]\nbudget = '\\d'\n[[class]]\n\
                    name = 'x'\nports = [{ \"a b\" = [1, 2.5, true], '' = 1979-05-27 }]\n";
        let printed = in_force(text, &SECTIONS);
        assert!(printed.contains("budget = \"\\\\d\""), "{printed}");
        let again = in_force(&printed, &SECTIONS);
        assert_eq!(again, printed);
        assert!(DeTable::parse(&printed).is_ok(), "{printed}");
    }

    #[test]
    fn defaults_that_are_values_are_written_as_values() {
        let check = |words: &str, value: Option<&str>| {
            assert_eq!(default_value(words).as_deref(), value, "{words}");
        };
        check("true", Some("true"));
        check("100", Some("100"));
        check("12.5%", Some("\"12.5%\""));
        check("200 MiB", Some("\"200 MiB\""));
        check("15%, at least 64 MiB", None);
        check("none", None);
        check("127.0.0.1", None);
        check("all memory", None);
    }
}
