//! Every deadline is in the table of ARCHITECTURE.md.

#[test]
fn deadlines_are_in_the_table() {
    let files = tidy::tree::files().unwrap();
    let found = tidy::deadlines::complaints(&files);
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}
