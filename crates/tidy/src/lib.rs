//! Checks of the source tree itself: the layers, the text, the links.
//!
//! Nothing links this crate; its tests are what it is for (`cargo test -p tidy`, which is also
//! in `make lint` and `make test`):
//!
//! - `tests/it/layers.rs`: each crate depends on what the table in [`layers`] lets it, and on
//!   nothing else; what others wrote comes from a registry and on our terms, [`packages`];
//! - `tests/it/text.rs`: what rustfmt and clippy do not look at, [`text`];
//! - `cargo run -p tidy --example shape`: circles of files inside a crate, types whose methods
//!   stand in many files, structs of many fields, [`shape`];
//! - `tests/it/links.rs`: a Markdown link to a file leads to one, [`links`];
//! - `tests/it/deadlines.rs`: ARCHITECTURE.md says of each deadline what decides, [`deadlines`].
//!
//! A check is a pure function from text to complaints, so that its own tests can show it a
//! tree that breaks it; [`tree`] alone reads files. Where a check allows exceptions, each
//! stands in a table with its reason, and an exception that nothing needs any more is itself
//! a complaint.

#![forbid(unsafe_code)]

pub mod deadlines;
pub mod layers;
pub mod lexer;
pub mod links;
pub mod modules;
pub mod packages;
pub mod shape;
pub mod text;
pub mod tree;
pub mod uses;
