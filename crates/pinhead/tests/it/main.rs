//! Tests of the command line as a person or a script uses it, without a guest.

mod cache;
mod check;
mod conform;
mod docs;
mod fleet;
mod host_rules;
mod manpage;
mod surface;
mod units;
mod web;
mod zvm;
mod zvm_host;
