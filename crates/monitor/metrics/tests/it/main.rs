//! Integration tests of documents and pushes.

mod answers;
mod documents;
mod push;
