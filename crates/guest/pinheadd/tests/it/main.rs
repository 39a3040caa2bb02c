//! Tests of the daemon as a process and of its modules, in a fake kernel tree.

mod daemon;
mod guestmon;
mod monwriter;
mod plug;
