//! Options of a report.

use crate::gather::By;
use crate::pattern::Pattern;
use crate::time::Zone;

/// Options of a report.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Subject of the rows.
    pub by: By,
    /// Pattern for the name or the class of guests.
    pub pattern: Option<&'a Pattern>,
    /// Maximum number of rows, without the sums.
    pub top: usize,
    /// Subject of the rows of intervals.
    pub detail: Detail,
    /// Time zone of the times shown.
    pub zone: &'a dyn Zone,
}

/// Subject of the rows of intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Sums over all subjects, for people.
    Sums,
    /// Sums, and also each guest or tier, for programs.
    Each,
}
