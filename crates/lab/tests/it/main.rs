//! Results of experiments, as they are kept and shown.

mod results;
mod rounds;
