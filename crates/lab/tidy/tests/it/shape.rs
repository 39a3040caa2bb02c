//! The tree has no circles of files, and no types or structs that are too large.

use tidy::{modules::Modules, shape, tree};

#[test]
fn files_and_types_inside_a_crate_are_apart() {
    let files = tree::files().unwrap();
    let crates: Vec<Modules> =
        tree::crates(&files).iter().map(|name| Modules::of(name, &files)).collect();
    assert!(crates.len() > 10 && crates.iter().any(|one| !one.arrows().is_empty()));
    let mut found: Vec<String> = crates.iter().flat_map(shape::complaints).collect();
    found.extend(shape::needless(&crates));
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}
