//! Selection of series by untrusted names. Each name is matched literally, and no query exceeds the
//! servers' maximum length.

use model::GuestIdentity;
use std::fmt::Write;

/// Maximum length of names in a query: VictoriaMetrics refuses queries of more than 16 KiB.
const NAMES_BYTES: usize = 12_000;

/// Returns label matchers for at least these guests, in pieces of limited length.
pub(crate) fn labels_of<'a>(all: impl Iterator<Item = &'a (String, GuestIdentity)>) -> Vec<String> {
    pieces(all.map(|(host, who)| [host.as_str(), who.name.as_str()]))
        .into_iter()
        .map(|piece| {
            let of = |at: usize| one_of(piece.iter().map(|names| names[at]).collect());
            format!("host=~{},guest=~{}", of(0), of(1))
        })
        .collect()
}

/// Splits names into pieces short enough for one query each.
pub(crate) fn pieces<'a, const N: usize>(
    all: impl Iterator<Item = [&'a str; N]>,
) -> Vec<Vec<[&'a str; N]>> {
    let mut pieces: Vec<Vec<[&'a str; N]>> = Vec::new();
    let mut left = 0;
    for names in all {
        let length: usize = names.iter().map(|name| quoted(&escaped(name)).len()).sum();
        match pieces.last_mut().filter(|_| length <= left) {
            Some(piece) => piece.push(names),
            None => {
                pieces.push(vec![names]);
                left = NAMES_BYTES;
            }
        }
        left = left.saturating_sub(length);
    }
    pieces
}

/// Returns a regular expression that matches these names.
pub(crate) fn one_of(mut names: Vec<&str>) -> String {
    names.sort_unstable();
    names.dedup();
    quoted(&names.into_iter().map(escaped).collect::<Vec<_>>().join("|"))
}

/// Returns a regular expression that matches the text literally.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        if "\\.+*?()|[]{}^$".contains(letter) {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

/// Returns a text as a PromQL string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '\\' | '"' => {
                out.push('\\');
                out.push(letter);
            }
            '\n' => out.push_str("\\n"),
            // Writing to a string cannot fail.
            letter if letter.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_literally() {
        assert_eq!(escaped("web_1.a|b"), "web_1\\.a\\|b");
        assert_eq!(quoted("a\"b\\c\nd\u{1}"), "\"a\\\"b\\\\c\\nd\\u0001\"");
        let who = |host: &str, name: &str| {
            (host.to_owned(), GuestIdentity { name: name.into(), ..GuestIdentity::default() })
        };
        let all = [who("a", "g1"), who("b", "g1"), who("a", "x\"y")];
        assert_eq!(labels_of(all.iter()), [r#"host=~"a|b",guest=~"g1|x\"y""#]);
        let many: Vec<(String, GuestIdentity)> = (0..400)
            .map(|n| who(&format!("node-{n:04}.rack-01.dc1.example.com"), &"-.".repeat(n % 250)))
            .collect();
        let pieces = labels_of(many.iter());
        let sizes = pieces.iter().map(String::len);
        assert!(pieces.len() > 3 && sizes.max() < Some(13_000), "{}", pieces.len());
    }
}
