//! Documents and pushes, against what is written about them.

mod documents;
mod push;
