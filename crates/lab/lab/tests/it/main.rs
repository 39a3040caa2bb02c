//! Results of experiments, stored and shown, and loads.

mod load;
mod results;
mod rounds;
