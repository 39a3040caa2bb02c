//! Integration tests of the journal and the recordings: write, read, damage, kill.

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
