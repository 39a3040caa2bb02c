//! The journal and the recordings: written, read, damaged, killed.

mod common;
mod crash;
mod day;
mod findings;
mod golden;
mod held;
mod journal;
mod passes;
mod recorder_crash;
mod records;
mod records_damaged;
mod records_golden;
mod records_running;
mod writer;
