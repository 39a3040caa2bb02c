//! Tests that take minutes: the experiments with real guests, one after the other.

mod experiments;
