//! The rule language, from text to values and diagnostics.

mod additions;
mod common;
mod diagnostics;
mod expressions;
mod files;
mod host;
mod limits;
mod lint;
mod reports;
