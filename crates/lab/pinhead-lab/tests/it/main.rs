//! Tests of the command line, without a guest.

mod experiment;
