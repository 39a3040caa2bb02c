//! The sources and licences of external packages.

use serde_json::Value;

/// SPDX names of the accepted licences, which are all compatible with this project's own licences.
const LICENCES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Returns the complaints about the whole dependency graph in the output of `cargo metadata`.
pub fn complaints(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    packages.iter().filter_map(complaint).collect()
}

fn complaint(package: &Value) -> Option<String> {
    // A package without a source is in the workspace.
    let source = package["source"].as_str()?;
    let name = package["name"].as_str().unwrap_or_default();
    if !source.starts_with("registry+") {
        return Some(format!("{name} comes from {source}: only a registry keeps what it gave"));
    }
    let licence = package["license"].as_str().unwrap_or_default();
    (!is_allowed(licence))
        .then(|| format!("{name} has the licence {licence:?}, which is not in tidy's LICENCES"))
}

/// Returns true if every part of at least one alternative of a licence expression is in the list.
/// Parentheses group alternatives, as in `(A OR B) AND C`. `/` is an old form of OR.
fn is_allowed(expression: &str) -> bool {
    let listed = |part: &str| LICENCES.contains(&part.trim().trim_matches(['(', ')']));
    let any = |group: &str| group.replace('/', " OR ").split(" OR ").any(listed);
    if expression.contains('(') {
        return expression.split(" AND ").all(any);
    }
    expression.replace('/', " OR ").split(" OR ").any(|one| one.split(" AND ").all(listed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn licence_expressions_are_understood() {
        for allowed in [
            "MIT",
            "MIT OR GPL-3.0",
            "MPL-2.0/MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "MIT AND ISC",
        ] {
            assert!(is_allowed(allowed), "{allowed}");
        }
        for refused in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND GPL-3.0"] {
            assert!(!is_allowed(refused), "{refused}");
        }
    }

    #[test]
    fn only_a_registry_will_do() {
        let package = |source: Value| json!({"name": "a", "license": "MIT", "source": source});
        let check = |source| complaints(&json!({"packages": [package(source)]})).len();
        assert_eq!(check(json!(null)), 0);
        assert_eq!(check(json!("registry+x")), 0);
        assert_eq!(check(json!("git+x")), 1);
    }
}
