//! `FARM.toml`: classes of guests, and their common limits.
//!
//! ```text
//!   text ─► settings::Reader ─► tables (a row a key) ─► build (checked, filled up) ─► Farm
//!                └────────── every fault with its line and column ──────────┘
//! ```
//!
//! A file is accepted completely or not at all, and all of its errors are reported together.
//! [`parse`] is a pure function of the text. [`load`] reads the file.

mod build;
mod kinds;
mod links;
mod types;

pub use settings::{FILE_MAX, Fault, Key, LoadError, Section};
pub use types::{Builtin, Class, ClassLink, Farm, Limits, ParkTo, Port, Probe, SECTIONS, Source};

use std::path::Path;

/// Parses a file's text. The paths in the text are left as written, see [`Farm::below`]. `stem` is
/// the default for the farm's name.
pub fn parse(text: &str, stem: &str) -> Result<Farm, Vec<Fault>> {
    let mut reader = settings::Reader::new(text);
    let tree = reader.tree(SECTIONS);
    let farm = build::build(&mut reader, &tree, stem);
    reader.finish(farm)
}

/// Reads a file. Relative paths in the file start at the file's directory.
pub fn load(path: &Path) -> Result<Farm, LoadError> {
    let text = settings::load(path)?;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or(build::NAMELESS);
    match parse(&text, stem) {
        Ok(farm) => Ok(farm.below(path.parent().unwrap_or(Path::new("")))),
        Err(faults) => Err(LoadError::Wrong { path: path.to_path_buf(), faults }),
    }
}

#[cfg(test)]
mod tests;
