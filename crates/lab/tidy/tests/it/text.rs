//! The tree's text passes the checks.

#[test]
fn the_text_is_tidy() {
    let files = tidy::tree::files().unwrap();
    assert!(
        files.iter().any(|file| file.path == "crates/lab/tidy/tests/it/text.rs"),
        "it saw the tree"
    );
    let mut found = tidy::text::complaints(&files);
    found.extend(tidy::words::complaints(&files));
    found.extend(tidy::heads::complaints(&files));
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}
