//! Integration tests of records in both directions. They cover all tables with random bytes,
//! vectors worked out by hand, and files that are truncated or inconsistent, or have swapped pages.

mod files;
mod peers;
mod tables;
mod vectors;
