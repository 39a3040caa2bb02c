//! What was found by fuzzing, again.

mod corpus;
