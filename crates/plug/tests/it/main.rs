//! CPUs and memory of a machine that is made up.

mod conflicts;
mod cpus;
mod memory;
