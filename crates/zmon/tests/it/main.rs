//! Integration tests of records in both directions: all tables with random bytes, vectors worked
//! out by hand, and files that are cut, swapped and torn.

mod files;
mod peers;
mod tables;
mod vectors;
