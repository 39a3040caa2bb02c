//! What is measured with real guests: CPU time, how often something runs, how soon it happens.
//! Nothing else runs meanwhile; tests that let their guests sleep run together, and those of them
//! that take minutes in `make test-slow` (`scripts/test`).

mod farms_left;
mod host_eight;
mod hostile;
mod idle;
mod pace;
mod page_out;
mod strangers;
