//! The daemon as a process, in a kernel tree that is made up.

mod daemon;
mod monwriter;
