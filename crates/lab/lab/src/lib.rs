//! The published experiments, repeated with real guests, and the loads that they put on guests.
//!
//! ```text
//!   load (requests by HTTP, jobs) ─► latencies, seconds of each round ─► an experiment, a table
//!
//!   catalog ─► penguins, count, swap, cmm, plug ─► bench (rounds, phases) ─► outcome ─► shelf
//!                                             ▲ resume ◄──────────────│───────────┘
//!              published (tables of the literature) ─► view ◄─────────┘
//!                                                       └─► verdict ─► text, page, compare
//! ```
//!
//! `pinhead-lab` is the command line of the experiments and of the loads. The program `bench`
//! measures the figures that the documents promise, without an experiment.
//!
//! An [`Outcome`] holds only measured values. Pure code derives a [`View`] from the outcome each
//! time a result is shown. A failed phase keeps its measures, and the file is written after every
//! phase.

#![forbid(unsafe_code)]

mod bench;
pub mod catalog;
mod chart;
mod clock;
mod cmm;
mod compare;
mod count;
mod error;
mod figure;
pub mod load;
pub mod outcome;
mod page;
mod penguins;
mod plug;
mod promotion;
pub mod published;
mod resume;
pub mod shelf;
pub mod site;
mod stop;
mod swap;
mod text;
mod verdict;
pub mod view;

pub use bench::{Asked, Bench};
pub use compare::compare;
pub use count::COUNT_MAX;
pub use error::Error;
pub use outcome::{Measures, Outcome};
pub use page::page;
pub use resume::resumed;
pub use stop::stop_flag;
pub use text::{table, text};
pub use verdict::{Finding, Verdict, summary};
pub use view::View;

pub(crate) use outcome::Phase;
pub(crate) use outcome::Run;
