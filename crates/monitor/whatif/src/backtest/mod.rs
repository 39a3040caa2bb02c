//! Answers to what-if questions from recorded data: replays of a policy, and recommended sizes.
//!
//! ```text
//!   recordings ──┬─► Replay: passes, played by a policy ─┬─► documents (serde)
//!   journal ─────┤            and against the journal     │
//!   settings ────┘                                        │
//!   recordings ────► sizes: recorded needs, with advice ───┘
//!   recordings ────► tune: findings, played again with their remedies
//! ```
//!
//! The command line shows the results as tables, the Python package as tables of Arrow.

mod document;
mod error;
mod fit;
mod replay;
mod sizes;
mod tune;
mod world;

pub use document::{
    AgreementDocument, DecisionDocument, FitDocument, GuestDocument, HostDocument, Range,
    ReplayDocument, RuleDocument, RunDocument, SizeDocument, SizesDocument, TallyDocument,
};
pub use error::Error;
pub use fit::{Fit, Shortage, search};
pub use replay::{Played, Replay, policy};
pub use sizes::{MINUTES_MS, Question, Sizes};
pub use tune::{Advised, Findings, Foretold, Outcome, tune};
pub use world::World;
