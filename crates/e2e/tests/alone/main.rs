//! What is measured with real guests: CPU time, how often something runs, how soon it happens.
//! Nothing else runs on the machine meanwhile, no other test and no guest of one.

mod host_eight;
mod hostile;
mod idle;
mod pace;
