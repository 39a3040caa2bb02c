//! Recordings of the host and its guests by the minute, with raw samples of the last hours.
//!
//! ```text
//!   Moment ─► Folder ─► Interval a minute ─► 2026-11-21.db ─► a quarter of an hour ─► 2026-11.db
//!      │                                         │                                       │
//!      └────► pack (differences) ─► raw.db       └──────────► Records, sql ◄─────────────┘
//! ```
//!
//! `Recorder` receives each moment. `model::Folder` sums moments, `pack` compresses them, `rows`
//! and `raw` are the files, and `keep` removes old files. `Records` reads all files of a directory
//! as one, and `sql` runs the user's queries. `docs/recordings.md` describes the layout of the
//! tables.

mod calendar;
mod damage;
mod keep;
pub mod pack;
pub mod passes;
mod raw;
mod read;
mod recorder;
mod rows;
mod running;
mod scan;
mod schema;
mod sql;
mod tables;
mod travel;

pub use calendar::Period;
pub use keep::Keep;
pub use passes::PassRecorder;
pub use read::{Records, STEPS_MAX, Span};
pub use recorder::Recorder;
pub use scan::{Pick, Processes};
pub use sql::{Cell, Sql};
pub use tables::{Column, TableText, tables};
pub use travel::{Names, Taken, Travel};
