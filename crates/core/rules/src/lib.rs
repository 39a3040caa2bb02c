//! The rule language: from a text to a program.
//!
//! ```text
//!   bytes ─► file (lines, settings) ─► parse (trees) ─► compile (types, flat code) ─► Program
//!                     └────────── diagnostics, with spans ──────────┘            History ─► run
//! ```
//!
//! The language is that of IBM's `cpuplugd`, including its surprises; additions need LANGUAGE="2".
//! The rules of the host's manager ([`host`]) use the same expressions with other counters. Reading
//! never fails, and evaluation is bounded, because it has no loops and allocates no memory.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod ast;
mod compile;
mod diag;
mod explain;
mod file;
pub mod host;
mod host_program;
mod lint;
mod parse;
mod presets;
mod program;
mod range;

pub use ast::{BinaryOp, Expr, ExprKind, Function, Keyword};
pub use compile::{Machine, compile};
pub use diag::{CODES, Diagnostic, Severity, Span, has_errors, line_column, one_line};
pub use explain::{Explanation, Piece, Value, explain};
pub use file::reader::parse;
pub use file::{FileKind, Language, MAX_FILE, Name, RuleFile, RuleText, Setting, Variable};
pub use lint::lint;
pub use parse::MAX_HISTORY;
pub use presets::{PRESETS, Preset, preset};
pub use program::{CpuRules, Fault, FaultKind, MemoryRules, Program, Steps};
