//! Integration tests of records in both directions: all tables with random bytes, vectors worked
//! out by hand, and files that are truncated, have swapped pages, or are inconsistent.

mod files;
mod peers;
mod tables;
mod vectors;
