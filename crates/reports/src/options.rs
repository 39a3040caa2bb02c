//! What is asked of a report.

use crate::gather::{By, Pattern};
use crate::time::Zone;

/// What is asked for.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// What a row is about.
    pub by: By,
    /// Only guests of which this is the name or the class.
    pub pattern: Option<&'a Pattern>,
    /// How many rows at most, without the sums.
    pub top: usize,
    /// What the rows of intervals are about.
    pub detail: Detail,
    /// The zone that times are shown in.
    pub zone: &'a dyn Zone,
}

/// What the rows of intervals are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The sum of all: what a person reads.
    Sums,
    /// Each guest or tier as well: what a program reads.
    Each,
}
