//! Integration tests of reports: golden files, documents, and sums.

mod docs;
mod golden;
mod sums;
