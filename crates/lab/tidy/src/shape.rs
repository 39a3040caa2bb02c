//! Undesired growth: types with methods in many files, structs of many fields, circles of files.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{Modules, circles};
use crate::text::Exception;

/// Maximum number of files with an inherent `impl` of one type.
const IMPL_FILES_MAX: usize = 3;
const FIELDS_MAX: usize = 15;

/// Structs that may have more fields, each with its reason. All are tables, or formats of messages
/// and files.
pub const WIDE: &[Exception] = &[
    ("crates/farm/farm/src/config/types.rs::Class", "a class with all its keys, read only"),
    (
        "crates/host/manager/src/control/scanned.rs::TaskRow",
        "a row of an answer on the control socket",
    ),
    (
        "crates/host/manager/src/control/types.rs::GuestRow",
        "a row of an answer on the control socket",
    ),
    ("crates/host/manager/src/control/types.rs::Status", "an answer on the control socket"),
    ("crates/lab/lab/src/site/meter.rs::Reading", "a row of readings"),
    ("crates/pinhead/src/idle/wakers.rs::Wakers", "the JSON of `pinhead idle`"),
    ("crates/wire/wire/src/to_host.rs::Status", "a message on the wire"),
];

/// Returns the complaints about the shape of one crate.
pub fn complaints(modules: &Modules) -> Vec<String> {
    let mut found = Vec::new();
    for circle in circles_of(modules) {
        found.push(format!(
            "files in a circle: {}: move what two of them need into a file below both",
            circle.join(" ")
        ));
    }
    for (name, files) in impls(modules) {
        if files.len() > IMPL_FILES_MAX {
            let files: Vec<_> = files.into_iter().collect();
            found.push(format!("impl {name} in {} files: {}", files.len(), files.join(" ")));
        }
    }
    for (file, name, fields) in wide(modules) {
        let place = format!("{file}::{name}");
        if !WIDE.iter().any(|(excepted, _)| *excepted == place) {
            found.push(format!("{place} has {fields} fields; {FIELDS_MAX} are easy to follow"));
        }
    }
    found
}

/// Returns the exceptions for structs that are gone or have become small.
pub fn needless(all: &[Modules]) -> Vec<String> {
    let needed: BTreeSet<String> =
        all.iter().flat_map(wide).map(|(file, name, _)| format!("{file}::{name}")).collect();
    WIDE.iter()
        .filter(|(place, _)| !needed.contains(*place))
        .map(|(place, _)| format!("{place}: no longer needs its place in tidy's shape::WIDE"))
        .collect()
}

fn circles_of(modules: &Modules) -> Vec<Vec<String>> {
    circles(modules.all.len(), &modules.arrows())
        .into_iter()
        .map(|circle| circle.into_iter().map(|at| modules.all[at].file.clone()).collect())
        .collect()
}

/// Returns the types with methods of their own, and the files with these methods.
fn impls(modules: &Modules) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for module in &modules.all {
        for line in module.code.lines() {
            if let Some(name) = inherent_impl(line) {
                found.entry(name).or_default().insert(module.file.clone());
            }
        }
    }
    found
}

/// Returns the type in a line that begins an `impl` without a trait.
fn inherent_impl(line: &str) -> Option<String> {
    let rest = line.strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(generic) => after_generics(generic),
        None => rest.strip_prefix(' ')?,
    };
    if rest.contains(" for ") {
        return None;
    }
    let name: String =
        rest.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// Returns the text behind the `>` that closes the generics.
fn after_generics(generic: &str) -> &str {
    let mut depth = 1;
    for (at, c) in generic.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &generic[at + 1..];
        }
    }
    ""
}

/// Returns structs with too many fields: file, name, fields.
fn wide(modules: &Modules) -> Vec<(String, String, usize)> {
    let mut found = Vec::new();
    for module in &modules.all {
        for (at, _) in module.code.match_indices("struct ") {
            let rest = &module.code[at + "struct ".len()..];
            let Some(open) = rest.find(['{', ';', '(']) else { continue };
            if !rest[open..].starts_with('{') {
                continue;
            }
            let name: String =
                rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let fields = fields(&rest[open + 1..]);
            if fields > FIELDS_MAX {
                found.push((module.file.clone(), name, fields));
            }
        }
    }
    found
}

/// Returns the number of fields up to the brace that closes a struct.
fn fields(body: &str) -> usize {
    let (mut depth, mut count, mut before) = (0_usize, 0, ' ');
    let mut signs = body.chars().peekable();
    while let Some(c) = signs.next() {
        match c {
            '{' | '(' | '[' | '<' => depth += 1,
            // The arrow of a function's type does not close generics.
            '>' if before == '-' => {}
            '}' if depth == 0 => break,
            '}' | ')' | ']' | '>' => depth = depth.saturating_sub(1),
            ':' if depth == 0 && before != ':' && signs.peek() != Some(&':') => count += 1,
            _ => {}
        }
        before = c;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    fn modules(files: &[(&str, String)]) -> Modules {
        let files: Vec<File> = files
            .iter()
            .map(|(path, text)| File { path: format!("crates/a/src/{path}"), text: text.clone() })
            .collect();
        Modules::of("a", &files)
    }

    #[test]
    fn files_in_a_circle_are_a_complaint() {
        let found = |of_c: &str| {
            let b = ("b.rs", "use crate::c::C;".to_owned());
            complaints(&modules(&[b, ("c.rs", of_c.to_owned())]))
        };
        assert_eq!(found("use std::fmt;"), Vec::<String>::new());
        let found = found("use crate::b::B;");
        assert!(found.len() == 1 && found[0].starts_with("files in a circle: "), "{found:?}");
    }

    #[test]
    fn methods_in_four_files_are_too_many() {
        let text = "impl<'a, T: Into<u8>> Big<'a, T> {\n}\nimpl Drop for Big {\n}\n".to_owned();
        let three = [("b.rs", text.clone()), ("c.rs", text.clone()), ("d.rs", text.clone())];
        assert!(complaints(&modules(&three)).is_empty());
        let four = [&three[..], &[("e.rs", text)]].concat();
        let found = complaints(&modules(&four));
        assert!(found.len() == 1 && found[0].starts_with("impl Big in 4 files"), "{found:?}");
    }

    #[test]
    fn a_struct_of_sixteen_fields_is_too_wide() {
        let of = |count: usize| {
            let fields: String = (0..count)
                .map(|n| format!("    f{n}: std::collections::BTreeMap<u8, fn(a: u8) -> u8>,\n"))
                .collect();
            complaints(&modules(&[("b.rs", format!("pub struct Wide {{\n{fields}}}\n"))]))
        };
        assert!(of(15).is_empty(), "{:?}", of(15));
        let found = of(16);
        assert!(found.len() == 1 && found[0].contains("b.rs::Wide has 16 fields"), "{found:?}");
    }
}
