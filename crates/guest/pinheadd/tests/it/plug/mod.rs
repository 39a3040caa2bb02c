//! CPUs and memory of a fake machine.

mod conflicts;
mod cpus;
mod memory;
