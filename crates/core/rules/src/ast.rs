//! The tree of an expression.

use crate::diag::Span;
use base::named;
use model::counters::{Counter, CpuField};

/// A keyword: a value of the current interval, read or derived from two snapshots. Past intervals
/// of a keyword are not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyword {
    /// First field of /proc/loadavg.
    LoadAvg,
    /// Tasks that can run now.
    RunnableProc,
    /// CPUs online.
    OnlineCpus,
    /// A share of the CPU time of the last interval, in percent of one CPU.
    Percent(CpuField),
    /// Pages swapped in and out, a second.
    SwapRate,
    /// Blocks paged in and out, a second.
    Apcr,
    /// MemFree in MiB.
    FreeMem,
}

impl Keyword {
    /// Returns the keyword with that name.
    pub fn from_name(name: &str) -> Option<Keyword> {
        match name {
            "loadavg" => Some(Keyword::LoadAvg),
            "runnable_proc" => Some(Keyword::RunnableProc),
            "onumcpus" => Some(Keyword::OnlineCpus),
            "swaprate" => Some(Keyword::SwapRate),
            "apcr" => Some(Keyword::Apcr),
            "freemem" => Some(Keyword::FreeMem),
            "total_ticks" => None,
            _ => CpuField::from_name(name).map(Keyword::Percent),
        }
    }

    /// Returns the keyword's name in the rule language.
    pub fn name(self) -> &'static str {
        match self {
            Keyword::LoadAvg => "loadavg",
            Keyword::RunnableProc => "runnable_proc",
            Keyword::OnlineCpus => "onumcpus",
            Keyword::Percent(field) => field.name(),
            Keyword::SwapRate => "swaprate",
            Keyword::Apcr => "apcr",
            Keyword::FreeMem => "freemem",
        }
    }

    /// Returns true if the original computes the keyword only together with its memory rules.
    pub fn is_memory(self) -> bool {
        matches!(self, Keyword::SwapRate | Keyword::Apcr | Keyword::FreeMem)
    }
}

named! {
    /// A binary operator, with its sign in the file.
    #[allow(missing_docs)]
    pub enum BinaryOp {
        Or = "|",
        And = "&",
        Less = "<",
        Greater = ">",
        LessEqual = "<=",
        GreaterEqual = ">=",
        Equal = "==",
        NotEqual = "!=",
        Add = "+",
        Subtract = "-",
        Multiply = "*",
        Divide = "/",
    }
}

impl BinaryOp {
    /// Returns true if the operator yields a number from two numbers.
    pub fn is_arithmetic(self) -> bool {
        self.binding() >= Binding::Add
    }

    /// Returns true if the operator compares two numbers.
    pub fn is_comparison(self) -> bool {
        self.binding() == Binding::Compare
    }

    pub(crate) fn binding(self) -> Binding {
        match self {
            BinaryOp::Or => Binding::Or,
            BinaryOp::And => Binding::And,
            BinaryOp::Add | BinaryOp::Subtract => Binding::Add,
            BinaryOp::Multiply | BinaryOp::Divide => Binding::Multiply,
            _ => Binding::Compare,
        }
    }
}

/// The precedence of an operator, loosest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Binding {
    None,
    Or,
    And,
    Compare,
    Add,
    Multiply,
}

named! {
    /// A function of the extended language.
    pub enum Function {
        /// The smallest reading of the last n intervals.
        Min = "min",
        /// The largest reading of the last n intervals.
        Max = "max",
        /// The mean reading of the last n intervals.
        Avg = "avg",
        /// The growth a second over the last n intervals.
        Rate = "rate",
        /// The growth over the last n intervals.
        Delta = "delta",
        /// True if the condition held in each of the last n snapshots.
        Over = "over",
    }
}

/// An expression and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The expression's kind.
    pub kind: ExprKind,
    /// The expression's position, without the parentheses around it.
    pub span: Span,
    /// True if the expression is in parentheses.
    pub parenthesised: bool,
}

/// The kinds of expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A constant.
    Number(f64),
    /// A counter, this number of intervals ago.
    Counter(Counter, u8),
    /// A derived value of the current interval.
    Keyword(Keyword),
    /// A user variable, by its index in the file's list of variables.
    Variable(usize),
    /// `-x`.
    Negate(Box<Expr>),
    /// `!x`.
    Not(Box<Expr>),
    /// `x op y`.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `function(x, intervals)`.
    Call(Function, Box<Expr>, u8),
    /// A part that could not be parsed; a diagnostic has the reason.
    Broken,
}

impl Expr {
    /// Returns the direct sub-expressions.
    pub fn children(&self) -> impl Iterator<Item = &Expr> {
        let (a, b) = match &self.kind {
            ExprKind::Negate(x) | ExprKind::Not(x) | ExprKind::Call(_, x, _) => (Some(&**x), None),
            ExprKind::Binary(_, x, y) => (Some(&**x), Some(&**y)),
            _ => (None, None),
        };
        a.into_iter().chain(b)
    }

    /// Returns true if the result is a truth value and not a number; `variable` returns the same
    /// property of a variable.
    pub(crate) fn is_truth(&self, variable: &dyn Fn(usize) -> bool) -> bool {
        match &self.kind {
            ExprKind::Not(_) | ExprKind::Call(Function::Over, ..) => true,
            ExprKind::Binary(op, ..) => !op.is_arithmetic(),
            ExprKind::Variable(index) => variable(*index),
            _ => false,
        }
    }
}
