//! Results of experiments, stored and shown.

mod results;
mod rounds;
