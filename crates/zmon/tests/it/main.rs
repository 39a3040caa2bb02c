//! Records both ways: every table with made-up bytes, vectors worked out by hand, and files that
//! are cut, swapped and torn.

mod files;
mod peers;
mod tables;
mod vectors;
