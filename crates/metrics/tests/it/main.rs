//! Documents and pushes, against what is written about them.

mod answers;
mod documents;
mod push;
