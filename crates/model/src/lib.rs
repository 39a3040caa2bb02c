//! What is recorded and what is decided, with all its texts: the types that go from a policy to
//! the journal and from there to whoever asks.
//!
//! ```text
//!   policy ──► [clause::Clause] ──► journal ──► `pinhead why`, `ps`, man page
//!                   one row: name, meaning, sentences, the numbers in them
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod clause;
pub mod quantity;
