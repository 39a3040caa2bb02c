//! Inputs found by fuzzing, run as tests.

mod corpus;
