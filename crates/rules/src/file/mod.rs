//! From the text of a rules file to its settings, variables and rules.
//!
//! The layout of the file is the original daemon's: one `name="value"` a line, all
//! white space dropped, the value between the first and the last quote. Reading
//! never fails; what is wrong is in the diagnostics, and what is usable beside it
//! is still there, so that one run tells of several mistakes.
//!
//! ```text
//!   bytes ─► lines (name, value) ─► settings (numbers, texts kept) ─► uses (trees of what
//!                                                                     the rules reach)
//! ```

mod lines;
mod predefined;
pub(crate) mod reader;
mod settings;
mod text;
mod uses;

use crate::ast::Expr;
use crate::diag::Span;

pub use predefined::{FileKind, Name};
pub(crate) use text::Text;

/// The longest line, as in the original.
pub const MAX_LINE: usize = 2048;
/// The longest name of a user variable, as in the original.
pub const MAX_NAME: usize = 128;
/// The room for all names and values of user variables, as in the original, which
/// keeps them in one buffer with two bytes beside each pair and two for itself.
pub const MAX_VARIABLES: usize = 4096;
/// A larger file is no rules file. The original has no such bound, but reads it
/// whole into the same buffers.
pub const MAX_FILE: usize = 1 << 20;

/// Which language a file is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// The original daemon's.
    Original,
    /// With pinhead's additions; the file says LANGUAGE="2" first.
    Extended,
}

/// A whole number that a file sets, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The number.
    pub value: u64,
    /// Where the number stands.
    pub span: Span,
}

/// A rule, or the size of a step, and where its name stands.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleText {
    /// The expression.
    pub expr: Expr,
    /// Where the name stands.
    pub name: Span,
}

/// A variable of the user's.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Where its name stands.
    pub span: Span,
    /// What it stands for; `None` as long as no rule uses it, and never parsed then.
    pub expr: Option<Expr>,
    text: Text,
    /// How deep the tree of the value is, as soon as it is there.
    levels: usize,
}

/// What a rules file says.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleFile {
    /// For whom it decides.
    pub kind: FileKind,
    /// The language it is in.
    pub language: Language,
    /// The user's variables, in the file's order.
    pub variables: Vec<Variable>,
    /// The largest history index of all that was parsed.
    pub history: u8,
    settings: [Option<Setting>; Name::ALL.len()],
    rules: [Option<RuleText>; Name::ALL.len()],
    /// Names that have a line, whatever its value.
    set: [bool; Name::ALL.len()],
    /// Names with a value that cannot be read.
    unread: [bool; Name::ALL.len()],
}

impl RuleFile {
    /// The number that a setting has.
    pub fn setting(&self, name: Name) -> Option<Setting> {
        self.settings[name as usize]
    }

    /// The expression that a rule has.
    pub fn rule(&self, name: Name) -> Option<&RuleText> {
        self.rules.get(name as usize)?.as_ref()
    }

    /// The file sets it, and an error says already why that cannot be read.
    pub(crate) fn is_unread(&self, name: Name) -> bool {
        self.unread[name as usize]
    }

    /// All rules that are set, in a fixed order.
    pub fn rules(&self) -> impl Iterator<Item = (Name, &RuleText)> {
        Name::ALL.iter().filter_map(|name| Some((*name, self.rule(*name)?)))
    }
}
