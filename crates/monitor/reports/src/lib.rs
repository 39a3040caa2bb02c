//! Reports: one table of derived fields, seventeen reports with these fields, and four formats.
//! Recordings or a metrics server provide the data of the hosts.
//!
//! ```text
//!   recordings, an engine ─► recorded ─► HostData
//!
//!   Interval (raw fields) ─► gather (guests, classes, hosts over time) ─┐
//!   fields (formulas) ────────────────────────────────────────────────► build ─► Report
//!   catalog (which report has which columns) ───────────────────────────┘          │
//!                                               text, CSV, JSON, HTML ◄── render ◄─┘
//! ```
//!
//! Only [`recorded`] reads files. Intervals, host names and the time zone are arguments. A value
//! that is not available is missing and never 0. Among available values, `0` means that nothing
//! happened, and `0.0` that the value is below the resolution.

#![forbid(unsafe_code)]

mod advice;
mod build;
mod catalog;
mod docs;
mod error;
mod facts;
mod fields;
pub mod fleet;
mod found;
mod gather;
mod header;
mod lines;
mod needs;
mod notes;
mod number;
mod options;
mod pattern;
mod plain;
mod processes;
pub mod recorded;
mod render;
mod report;
mod single;
mod states;
mod storage;
mod successors;
mod sums;
pub mod testing;
mod time;

/// Charts over time, for pages that contain more than a report.
pub mod chart {
    pub use crate::render::{Frame, Mark, OWNERS, STATES, Series, colours, key};
}

pub use advice::{RULES, Rule};
pub use build::build;
pub use catalog::{Chart, ChartKind, Definition, Part, REPORTS, find, heritage};
pub use docs::markdown;
pub use error::Error;
pub use facts::{Added, Facts};
pub use fields::{Derived, Raw, Scope, all, field};
pub use found::{must_be_found, recorded_name};
pub use gather::{By, HostData};
pub use header::HostHeader;
pub use needs::{Needs, needs};
pub use number::{Measure, mib, shown};
pub use options::{Detail, Options};
pub use pattern::Pattern;
pub use render::{csv, html, html_body, json, legend, text};
pub use report::{Line, LineKind, Report, Table};
pub use single::Single;
pub use states::{State, States, states};
pub use storage::{GuestStorage, Storage, storage};
pub use time::{Utc, Zone, clock_text, date_text, moment_text, rfc3339};
