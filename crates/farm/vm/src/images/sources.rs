//! Debian's own entries among the system's apt sources.
//!
//! Other entries are left out, because they have no kernels for guests. Many of these entries serve
//! only one architecture, and apt would report an error for each when it updates another
//! architecture.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::images::Error;
use crate::images::error::FileContext;

/// Fields that locate an entry's packages.
const PLACE: [&str; 3] = ["uris", "suites", "components"];

/// Options of an entry that are copied: its signing key, its location, and the permission to use
/// expired lists, which snapshots of earlier days need. Options that make apt accept unsigned or
/// badly signed files are left out: `trusted`, `allow-insecure`, `allow-weak` and similar ones.
const KEPT: [&str; 4] = ["signed-by", "inrelease-path", "by-hash", "check-valid-until"];

/// Returns the entries for binary packages from Debian, as names and texts of files for
/// `sources.list.d`. Only the options in [`KEPT`] remain, because a guest's architecture may differ
/// from the host's.
pub(crate) fn debian_sources(etc_apt: &Path) -> Result<Vec<(String, String)>, Error> {
    let list = etc_apt.join("sources.list");
    let parts = etc_apt.join("sources.list.d");
    let mut paths: Vec<PathBuf> = match fs::read_dir(&parts) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(source) => return Err(source).file("read", parts),
    };
    paths.sort();
    let mut lines = String::new();
    let mut stanzas = String::new();
    for path in std::iter::once(&list).chain(&paths) {
        let end = path.extension().and_then(|end| end.to_str());
        if !matches!(end, Some("list" | "sources")) {
            continue;
        }
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(source).file("read", path),
        };
        if end == Some("list") {
            lines.push_str(&one_line_entries(&text));
        } else {
            stanzas.push_str(&stanza_entries(&text));
        }
    }
    let files = [("debian.list", lines), ("debian.sources", stanzas)];
    let files: Vec<_> = files
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| (name.to_owned(), text))
        .collect();
    if files.is_empty() {
        return Err(Error::NoDebianSources { searched: vec![list, parts] });
    }
    Ok(files)
}

/// Returns true if an entry is Debian's. Such an entry is signed with Debian's key, or names a host
/// of Debian, or names a mirror with the usual path and no other key.
fn is_debian(uris: &[&str], signed_by: Option<&str>) -> bool {
    let debian_host = |uri: &&str| {
        let host = uri.split('/').nth(2).unwrap_or("");
        host == "debian.org" || host.ends_with(".debian.org")
    };
    if uris.iter().any(debian_host) {
        return true;
    }
    match signed_by {
        Some(key) => key.contains("debian-archive"),
        None => uris
            .iter()
            .any(|uri| uri.split('/').skip(3).any(|segment| segment.starts_with("debian"))),
    }
}

/// Parses lines such as `deb [option=value ...] URI suite component...`.
pub fn one_line_entries(text: &str) -> String {
    text.lines().filter_map(one_line_entry).fold(String::new(), |kept, line| kept + &line + "\n")
}

fn one_line_entry(line: &str) -> Option<String> {
    let line = line.split('#').next()?.trim();
    let rest = line.strip_prefix("deb")?;
    if !rest.starts_with([' ', '\t', '[']) {
        return None;
    }
    let rest = rest.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(bracket) => bracket.split_once(']')?,
        None => ("", rest),
    };
    let signed_by =
        options.split_ascii_whitespace().find_map(|option| option.strip_prefix("signed-by="));
    let uri = rest.split_ascii_whitespace().next()?;
    // A second list of options would not be checked, so the entry is left out.
    if options.contains('[') || rest.contains('[') || !is_debian(&[uri], signed_by) {
        return None;
    }
    let options: Vec<_> = options
        .split_ascii_whitespace()
        .filter(|option| option.split_once('=').is_some_and(|(name, _)| KEPT.contains(&name)))
        .collect();
    let options =
        if options.is_empty() { String::new() } else { format!("[{}] ", options.join(" ")) };
    Some(format!("deb {options}{}", rest.trim()))
}

/// Parses stanzas of `Field: value` lines with an empty line between them.
pub fn stanza_entries(text: &str) -> String {
    let mut kept = String::new();
    let mut stanza: Vec<(String, String)> = Vec::new();
    for line in text.lines().chain([""]) {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            kept.push_str(&stanza_entry(&std::mem::take(&mut stanza)).unwrap_or_default());
        } else if line.starts_with([' ', '\t']) {
            // A continuation belongs to the field above, for instance an embedded key.
            if let Some((_, value)) = stanza.last_mut() {
                value.push('\n');
                // A carriage return before the end of the line would become part of the value when
                // the file is read again.
                value.push_str(line.trim_end());
            }
        } else if let Some((field, value)) = line.split_once(':') {
            stanza.push((field.trim().to_owned(), value.trim().to_owned()));
        }
    }
    kept
}

fn stanza_entry(stanza: &[(String, String)]) -> Option<String> {
    let field = |wanted: &str| {
        stanza
            .iter()
            .find(|(field, _)| field.eq_ignore_ascii_case(wanted))
            .map(|(_, value)| value.as_str())
    };
    let enabled = field("Enabled").is_none_or(|value| !matches!(value, "no" | "false" | "0"));
    let binary = field("Types")?.split_ascii_whitespace().any(|kind| kind == "deb");
    let uris: Vec<_> = field("URIs")?.split_ascii_whitespace().collect();
    if !enabled || !binary || !is_debian(&uris, field("Signed-By")) {
        return None;
    }
    let mut text = "Types: deb\n".to_owned();
    for (field, value) in stanza {
        let is = |name: &&str| field.eq_ignore_ascii_case(name);
        if PLACE.iter().chain(&KEPT).any(is) {
            text.push_str(&format!("{field}: {value}\n"));
        }
    }
    text.push('\n');
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_one_line_each() {
        let check = |line: &str, expected: Option<&str>| {
            assert_eq!(one_line_entry(line).as_deref(), expected, "{line}");
        };
        check(
            "deb http://x.debian.org/debian bookworm main # ours",
            Some("deb http://x.debian.org/debian bookworm main"),
        );
        check(
            "deb [arch=amd64 signed-by=/k/debian-archive-keyring.gpg] http://m/x bookworm main",
            Some("deb [signed-by=/k/debian-archive-keyring.gpg] http://m/x bookworm main"),
        );
        check(
            "deb\t[ arch=amd64 ] http://mirror.example/debian/ bookworm main",
            Some("deb http://mirror.example/debian/ bookworm main"),
        );
        // The signature is still required.
        check(
            "deb [check-valid-until=no trusted=yes] http://snapshot.debian.org/archive b main",
            Some("deb [check-valid-until=no] http://snapshot.debian.org/archive b main"),
        );
        check("deb [signed-by=/k/other.asc] https://other.example/linux/debian b stable", None);
        check("deb https://debian.example.com/apt stable main", None);
        check("deb-src http://x.debian.org/debian bookworm main", None);
        check("# deb http://x.debian.org/debian bookworm main", None);
        check("deb [unclosed http://x.debian.org/debian", None);
        check("", None);
    }

    #[test]
    fn stanza_sources() {
        let text = "# comment\nTypes: deb deb-src\nURIs: http://x.debian.org/debian\n\
                    Suites: bookworm bookworm-updates\nComponents: main\n\
                    Architectures: amd64\nCheck-Valid-Until: no\n\
                    Signed-By: /k/debian-archive-keyring.gpg\n\n\
                    Types: deb\nURIs: https://other.example/debian\nSuites: x\n\
                    Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n\n\n\
                    Enabled: no\nTypes: deb\nURIs: http://x.debian.org/debian\nSuites: sid\n\n\
                    Types: deb-src\nURIs: http://x.debian.org/debian\nSuites: sid\n";
        let expected = "Types: deb\nURIs: http://x.debian.org/debian\n\
                        Suites: bookworm bookworm-updates\nComponents: main\n\
                        Check-Valid-Until: no\nSigned-By: /k/debian-archive-keyring.gpg\n\n";
        assert_eq!(stanza_entries(text), expected);
    }

    /// Without a signature, anyone in control of the mirror's address could choose a guest's
    /// content.
    #[test]
    fn finding_12_an_entry_that_need_not_be_signed_has_to_be() {
        let lax = "trusted allow-insecure allow-weak allow-downgrade-to-insecure";
        for option in lax.split(' ') {
            for value in ["yes", "true", "1"] {
                let line = format!("deb [{option}={value}] http://d.debian.org/debian b main");
                let kept = one_line_entry(&line).unwrap();
                assert_eq!(kept, "deb http://d.debian.org/debian b main", "{line}");
                let field = format!("{}{}", option[..1].to_uppercase(), &option[1..]);
                let text = format!(
                    "Types: deb\nURIs: http://d.debian.org/debian\nSuites: b\n{field}: {value}\n"
                );
                let kept = stanza_entries(&text);
                assert!(kept.contains("Suites: b\n") && !kept.contains(&field), "{kept}");
            }
        }
        let line = "deb [ trusted=yes signed-by=/k/a.gpg ] http://d.debian.org/debian b main";
        let kept = one_line_entry(line).unwrap();
        assert_eq!(kept, "deb [signed-by=/k/a.gpg] http://d.debian.org/debian b main");
        // The end of these options looks like the beginning of the entry.
        for options in
            ["[a]trusted=yes ", "[[trusted=yes]] ", "[a] [trusted=yes]", "[signed-by=/k[x] "]
        {
            let line = format!("deb {options}http://d.debian.org/debian b main");
            assert_eq!(one_line_entry(&line), None, "{line}");
        }
    }

    #[test]
    fn a_system_without_debian_says_where_it_looked() {
        let root = crate::Scratch::new("images-sources").unwrap();
        fs::create_dir_all(root.join("sources.list.d")).unwrap();
        fs::write(root.join("sources.list.d/x.list"), "deb http://a.example/u b main\n").unwrap();
        let error = debian_sources(root.path()).unwrap_err();
        assert!(matches!(&error, Error::NoDebianSources { searched } if searched.len() == 2));
        fs::write(root.join("sources.list"), "deb http://m.example/debian b main\n").unwrap();
        let files = debian_sources(root.path()).unwrap();
        let expected = "deb http://m.example/debian b main\n";
        assert_eq!(files, [("debian.list".to_owned(), expected.to_owned())]);
    }
}
