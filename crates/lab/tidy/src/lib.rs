//! Checks of the source tree itself: layers, text, links, commits.
//!
//! No crate links this crate. `cargo test -p tidy`, `make lint` and `make test` run its checks:
//!
//! - `tests/it/layers.rs`: each crate depends only on crates that the table in [`layers`] allows;
//!   external crates come from a registry and under allowed licences, [`packages`]; the table in
//!   ARCHITECTURE.md is current, [`layer_table`];
//! - `tests/it/text.rs`: rules of text that rustfmt and clippy do not check, [`text`];
//! - `tests/it/text.rs`, too: comments and tests' names begin with their subjects, [`words`]; a
//!   crate's head has its purpose, its diagram and its rules in this order, [`heads`];
//! - `tests/it/commits.rs`: the first lines of the newest commits are short, [`commits`];
//! - `cargo run -p tidy --example shape`: circles of files inside a crate, types with methods in
//!   many files, structs of many fields, [`shape`];
//! - `tests/it/links.rs`: a Markdown link to a file leads to an existing file, [`links`];
//! - `tests/it/deadlines.rs`: ARCHITECTURE.md has a row for each deadline, [`deadlines`].
//!
//! A check is a pure function from text to complaints, so that its own tests can pass it a bad
//! tree. Only [`tree`] reads files. If a check allows exceptions, each is in a table with its
//! reason, and an unnecessary exception is itself a complaint.

#![forbid(unsafe_code)]

pub mod commits;
pub mod deadlines;
pub mod heads;
pub mod layer_table;
pub mod layers;
pub mod lexer;
pub mod links;
pub mod modules;
pub mod packages;
pub mod shape;
pub mod text;
pub mod tree;
pub mod uses;
pub mod words;
