//! Results of experiments, stored and shown, loads, and the command line, without a guest.

mod experiment;
mod load;
mod results;
mod rounds;
