//! Recordings: what everything was like, minute by minute, and second by second for a while.
//!
//! ```text
//!   Moment ─► Folder ─► Interval a minute ─► 2026-11-21.db ─► a quarter of an hour ─► 2026-11.db
//!      │                                         │                                       │
//!      └────► pack (differences) ─► raw.db       └──────────► Records, sql ◄─────────────┘
//! ```
//!
//! `Recorder` is given each moment. `model::Folder` adds moments up, `pack` makes them small,
//! `rows` and `raw` are the files, `keep` takes away what is too old or too much. `Records`
//! reads all files of a directory as one, and `sql` answers the user's own questions. The
//! layout, table by table, is in `docs/recordings.md`.

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
