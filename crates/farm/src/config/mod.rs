//! `FARM.toml`: classes of guests, and what all of them may use together.
//!
//! ```text
//!   text ─► settings::Reader ─► raw (as typed in) ─► build (checked, filled up) ─► Farm
//!                └────────── every fault with its line and column ──────┘
//! ```
//!
//! A file is taken whole or not at all, and all its faults are told at once. [`parse`] is a
//! function of the text alone; [`load`] reads the file.

mod build;
mod error;
mod keys;
mod raw;
mod types;

pub use error::LoadError;
pub use keys::SECTIONS;
pub use settings::{Fault, Key, Section};
pub use types::{Builtin, Class, Farm, Limits, Port, Probe, Source};

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A larger file is a mistake: a class takes some 300 bytes.
pub const FILE_MAX: u64 = 256 * 1024;

/// What a farm is called whose file says nothing and has no name either.
const NAMELESS: &str = "farm";

/// Reads a file's text. Paths in it are as they were typed, see [`Farm::below`]. `stem` is what
/// the farm is called if the text does not say.
pub fn parse(text: &str, stem: &str) -> Result<Farm, Vec<Fault>> {
    let mut reader = settings::Reader::new(text);
    let raw = raw::read(&mut reader);
    let farm = build::build(&raw, stem, &mut reader);
    let faults = reader.into_faults();
    if faults.is_empty() { Ok(farm) } else { Err(faults) }
}

/// Reads a file. Paths in it are relative to it.
pub fn load(path: &Path) -> Result<Farm, LoadError> {
    let wrap = |source| LoadError::Read { path: path.to_path_buf(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(wrap)?;
    file.take(FILE_MAX + 1).read_to_end(&mut bytes).map_err(wrap)?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(LoadError::TooLong { path: path.to_path_buf() });
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        LoadError::Utf8 { path: path.to_path_buf(), offset }
    })?;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or(NAMELESS);
    match parse(&text, stem) {
        Ok(farm) => Ok(farm.below(path.parent().unwrap_or(Path::new("")))),
        Err(faults) => Err(LoadError::Wrong { path: path.to_path_buf(), faults }),
    }
}

#[cfg(test)]
mod tests;
