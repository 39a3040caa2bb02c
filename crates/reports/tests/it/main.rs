//! Reports, against golden files, documents and their own sums.

mod docs;
mod golden;
mod sums;
