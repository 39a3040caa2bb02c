//! The commands of `pinhead`, as a library: `main` only parses and maps errors.

#![forbid(unsafe_code)]

pub mod conform;
mod error;

pub use error::Error;
