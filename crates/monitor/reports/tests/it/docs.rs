//! Comparison of docs/reports.md with the tables. `PINHEAD_WRITE_DOCS=1 cargo test -p reports`
//! writes the file.

use std::path::Path;

#[test]
fn the_documentation_is_what_the_tables_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reports.md");
    let made = reports::markdown();
    if std::env::var_os("PINHEAD_WRITE_DOCS").is_some() {
        std::fs::write(&path, &made).expect("written");
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "docs/reports.md is stale: PINHEAD_WRITE_DOCS=1 cargo test -p reports");
}
