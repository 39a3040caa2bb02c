//! The daemon as a process, in a fake kernel tree.

mod daemon;
mod monwriter;
