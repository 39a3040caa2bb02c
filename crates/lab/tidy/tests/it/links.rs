//! Links in documents lead to existing files.

use tidy::{links, tree};

#[test]
fn links_to_files_lead_to_files() {
    let files = tree::files().unwrap();
    let mut documents = files.iter().filter(|file| file.path.ends_with(".md")).peekable();
    assert!(documents.peek().is_some(), "there are documents");
    let found: Vec<_> =
        documents.flat_map(|d| links::complaints(&tree::root(), &d.path, &d.text)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}
