//! Tests of the CPUs and the memory of a fake machine.

mod conflicts;
mod cpus;
mod memory;
