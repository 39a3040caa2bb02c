//! Analysis of recordings: sizes of guests, and the decisions that other policies would make.
//! [`backtest`] reads the recordings, and makes documents of the results.
//!
//! ```text
//!   intervals ─► Past (a series of needs for each guest) ─► size ─► Sizing, each with its proof
//!                                 │                          ▲
//!                                 └──► rules (ours, others) ─┘
//!   samples of seconds ─► SwingWatch: rules that reverse their actions at an equal load
//!   hosts and their guests' needs ─► moves: guests that fit better on another host
//!   passes ─► Player (the arbiter itself, or a rival) ─► decisions, tallies ─► compare
//! ```
//!
//! All but [`backtest`] is pure: data come in as intervals, and the same intervals give the same
//! result. Before a rule is trusted, it is fitted on the first two thirds of the time and judged by
//! the last third.

#![forbid(unsafe_code)]

pub mod backtest;
mod change;
mod compare;
mod habits;
mod imagined;
mod moves;
mod past;
mod replay;
mod rules;
mod size;
mod sources;
mod swings;
#[cfg(test)]
mod testing;
mod tune;

pub use change::{Change, LimitsOf, PlanOf};
pub use compare::{Agreement, Difference, Recorded, compare};
pub use habits::{GUEST_FIELDS, GuestHabits, Habits, HostHabits, PROCESS_FIELDS, points};
pub use moves::{Move, Place, Plan, Tenant, moves};
pub use past::{FIELDS, Guest, Past, Step};
pub use replay::{HostTally, Player, Replayed, Tally};
pub use rules::{ENOUGH_MS, Options, Rule};
pub use size::{Advice, Proof, Sizes, Sizing, Together, Tried, Verdict, size};
pub use sources::Sources;
pub use swings::{SwingWatch, Swings};
pub use tune::{Fault, Finding, Gain, Known, Remedy, Source, tune};
