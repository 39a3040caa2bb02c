//! Finds and reads the files that people write.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// One file of the tree.
pub struct File {
    /// Its path from the root, with `/` between the parts.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// Directories that hold what a program wrote, or inputs that are broken on purpose.
const SKIPPED: &[&str] =
    &[".git", "target", "fuzz/artifacts", "fuzz/corpus", "fuzz/target", "python/target"];

/// Files that we write, by the end of their names.
const WRITTEN: &[&str] = &[".rs", ".toml", ".md", ".sh", "Makefile"];

/// Directories whose files are scripts, whatever they are called.
const SCRIPTS: &[&str] = &["scripts/", ".ci/"];

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files of the tree that people write, in the order of their paths.
pub fn files() -> io::Result<Vec<File>> {
    let mut paths = Vec::new();
    walk(&root(), "", &mut paths)?;
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(root().join(&path)).map_err(|e| at(&path, &e))?;
            Ok(File { path, text })
        })
        .collect()
}

/// The names of the directories below `crates`.
pub fn crates(files: &[File]) -> BTreeSet<String> {
    files
        .iter()
        .filter_map(|file| file.path.strip_prefix("crates/")?.split('/').next())
        .map(str::to_owned)
        .collect()
}

fn walk(dir: &Path, prefix: &str, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(dir).map_err(|e| at(prefix, &e))? {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        if kind.is_dir() && !SKIPPED.contains(&path.as_str()) {
            walk(&entry.path(), &format!("{path}/"), paths)?;
        } else if kind.is_file() && is_written(&path) {
            paths.push(path);
        }
    }
    Ok(())
}

fn is_written(path: &str) -> bool {
    WRITTEN.iter().any(|end| path.ends_with(end))
        || SCRIPTS.iter().any(|start| path.starts_with(start))
}

fn at(path: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{path}: {error}"))
}
