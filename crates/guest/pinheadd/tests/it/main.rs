//! The daemon as a process and its modules, in a fake kernel tree.

mod daemon;
mod guestmon;
mod monwriter;
mod plug;
