//! `FARM.toml`: classes of guests, and what all of them may use together.
//!
//! ```text
//!   text ─► settings::Reader ─► tables (a row a key) ─► build (checked, filled up) ─► Farm
//!                └────────── every fault with its line and column ──────────┘
//! ```
//!
//! A file is taken whole or not at all, and all its faults are reported at once. [`parse`] is a
//! function of the text alone; [`load`] reads the file.

mod build;
mod kinds;
mod links;
mod types;

pub use settings::{FILE_MAX, Fault, Key, LoadError, Section};
pub use types::{Builtin, Class, ClassLink, Farm, Limits, ParkTo, Port, Probe, SECTIONS, Source};

use std::path::Path;

/// Reads a file's text. Paths in it are as they were typed, see [`Farm::below`]. `stem` is what
/// the farm is called if the text does not name it.
pub fn parse(text: &str, stem: &str) -> Result<Farm, Vec<Fault>> {
    let mut reader = settings::Reader::new(text);
    let tree = reader.tree(SECTIONS);
    let farm = build::build(&mut reader, &tree, stem);
    reader.finish(farm)
}

/// Reads a file. Paths in it are relative to it.
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
