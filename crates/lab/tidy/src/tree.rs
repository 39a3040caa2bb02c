//! Finds and reads the hand-written files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// A file of the tree.
pub struct File {
    /// The path from the root, with `/` between the parts.
    pub path: String,
    /// The file's content.
    pub text: String,
}

/// Directories with generated files, or with intentionally broken inputs.
const SKIPPED: &[&str] =
    &[".git", "target", "fuzz/artifacts", "fuzz/corpus", "fuzz/target", "python/target"];

/// Endings of the names of hand-written files.
const WRITTEN: &[&str] = &[".rs", ".toml", ".md", ".sh", "Makefile"];

/// Folders of crates below `crates`.
const FOLDERS: &[&str] = &["core", "wire", "system", "guest", "host", "farm", "monitor", "lab"];

/// Directories in which all files are scripts, whatever their names.
const SCRIPTS: &[&str] = &["scripts/", ".ci/"];

/// Returns the root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Returns all hand-written files of the tree, in the order of their paths.
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

/// Returns the names of the crates below `crates`, and of the programs in directories of their own.
pub fn crates(files: &[File]) -> BTreeSet<String> {
    files.iter().filter_map(|file| source(&file.path)).map(|(name, _)| name.to_owned()).collect()
}

/// Returns the crate of a source file, and the path from the directory of the crate's first file. A
/// program in `src/bin/NAME` is a separate crate.
pub fn source(path: &str) -> Option<(&str, &str)> {
    let (name, inside) = in_crate(path)?;
    let inside = inside.strip_prefix("src/")?;
    let program = inside.strip_prefix("bin/").and_then(|rest| rest.split_once('/'));
    Some(program.unwrap_or((name, inside)))
}

/// Returns the crate of a file and the path from its directory, or `None` for other files.
pub fn in_crate(path: &str) -> Option<(&str, &str)> {
    let (first, rest) = path.strip_prefix("crates/")?.split_once('/')?;
    if FOLDERS.contains(&first) { rest.split_once('/') } else { Some((first, rest)) }
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
