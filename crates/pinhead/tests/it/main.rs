//! Tests of the command line as a user or a script calls it, without a guest.

mod accidents;
mod cache;
mod check;
mod conform;
mod docs;
mod fleet;
mod host_rules;
mod manpage;
mod quantities;
mod settings_files;
mod surface;
mod units;
mod web;
mod zvm;
mod zvm_host;
