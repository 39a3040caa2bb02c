//! Tests of a guest's decisions, and of a host's decisions about its guests.

mod arbiter;
mod arbiter_balloon;
mod arbiter_real;
mod claims;
mod demand;
mod gain;
mod group;
mod guest;
mod movement;
mod page_out;
mod patience;
mod release;
