//! What is measured with real guests: CPU time, how often something runs, how soon it happens.
//! No other test runs meanwhile, but beside one whose guests sleep another one of that kind.

mod host_eight;
mod hostile;
mod idle;
mod left_behind;
mod pace;
