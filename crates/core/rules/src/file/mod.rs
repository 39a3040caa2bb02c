//! From the text of a rules file to its settings, variables and rules.
//!
//! The layout of the file is that of the original daemon. Each line has one `name="value"`. All
//! white space is dropped, and the value is the text between the first and the last quote. Reading
//! never fails. Errors become diagnostics, and the usable part of the file is kept, so that one run
//! reports several mistakes.
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

/// Maximum length of a line, as in the original.
pub const MAX_LINE: usize = 2048;
/// Maximum length of a user variable's name, as in the original.
pub const MAX_NAME: usize = 128;
/// Maximum size of all names and values of user variables, as in the original. The original keeps
/// names and values in one buffer, with two additional bytes for each pair and two for the buffer.
pub const MAX_VARIABLES: usize = 4096;
/// Maximum size of a rules file. The original has no such bound.
pub const MAX_FILE: usize = 1 << 20;

/// The language of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// The original daemon's language.
    Original,
    /// The language with pinhead's additions, chosen by LANGUAGE="2" as the first setting.
    Extended,
}

/// A whole number that a file sets, and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The number.
    pub value: u64,
    /// The position of the number.
    pub span: Span,
}

/// A rule, or the size of a step, and the position of its name.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleText {
    /// The expression.
    pub expr: Expr,
    /// The position of the name.
    pub name: Span,
}

/// A user variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// The variable's name.
    pub name: String,
    /// The position of the name.
    pub span: Span,
    /// The variable's value. `None` if no rule uses the variable: its text is then never parsed.
    pub expr: Option<Expr>,
    text: Text,
    /// The depth of the value's tree, once it is parsed.
    levels: usize,
}

/// The content of a rules file.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleFile {
    /// The target of the decisions.
    pub kind: FileKind,
    /// The file's language.
    pub language: Language,
    /// The user's variables, in the file's order.
    pub variables: Vec<Variable>,
    /// The largest history index of all parsed expressions.
    pub history: u8,
    settings: [Option<Setting>; Name::ALL.len()],
    rules: [Option<RuleText>; Name::ALL.len()],
    /// Names that the file sets, to any value.
    set: [bool; Name::ALL.len()],
    /// Names with an unreadable value.
    unread: [bool; Name::ALL.len()],
}

impl RuleFile {
    /// Returns the value of a setting.
    pub fn setting(&self, name: Name) -> Option<Setting> {
        self.settings[name as usize]
    }

    /// Returns the expression of a rule.
    pub fn rule(&self, name: Name) -> Option<&RuleText> {
        self.rules.get(name as usize)?.as_ref()
    }

    /// Returns true if the file sets the name to an unreadable value, which already has an error.
    pub(crate) fn is_unread(&self, name: Name) -> bool {
        self.unread[name as usize]
    }

    /// Returns all rules that are set, in a fixed order.
    pub fn rules(&self) -> impl Iterator<Item = (Name, &RuleText)> {
        Name::ALL.iter().filter_map(|name| Some((*name, self.rule(*name)?)))
    }
}
