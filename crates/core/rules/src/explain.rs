//! The values of all variables, sub-expressions and rules of a file, for `pinhead explain`. The
//! values come from the same code that decides.

use crate::ast::{Expr, ExprKind};
use crate::compile::{Machine, part};
use crate::diag::Span;
use crate::file::{Name, RuleFile};
use crate::program::{Fault, Program};
use model::counters::{Counter, History};

/// The value of a part of a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64),
    /// A truth value.
    Truth(bool),
    /// No value in this interval.
    Fault(Fault),
    /// Not evaluated: the group is off, so its counters are not read.
    Unread,
}

/// A part of a rule with its value and its own parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// The part's position.
    pub span: Span,
    /// The part's value.
    pub value: Value,
    /// The parts of this part; none for numbers, counters and variables.
    pub pieces: Vec<Piece>,
}

/// A file with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The variables that are used, in the file's order.
    pub variables: Vec<(String, Piece)>,
    /// The rules and the sizes of the steps.
    pub rules: Vec<(Name, Piece)>,
}

/// Evaluates every part of a file over a history.
pub fn explain(
    file: &RuleFile,
    program: &Program,
    machine: &Machine,
    history: &History,
) -> Explanation {
    explain_file(file, &program.counters, machine, history)
}

/// Evaluates every part of a file over a history. `counters` are the counters of the file's
/// program.
pub(crate) fn explain_file(
    file: &RuleFile,
    counters: &[Counter],
    machine: &Machine,
    history: &History,
) -> Explanation {
    let explainer = Explainer { file, counters, machine, history };
    let variables = file.variables.iter().filter_map(|variable| {
        let expr = variable.expr.as_ref()?;
        Some((variable.name.clone(), explainer.piece(expr)))
    });
    let rules = file.rules().map(|(name, rule)| (name, explainer.piece(&rule.expr)));
    Explanation { variables: variables.collect(), rules: rules.collect() }
}

struct Explainer<'a> {
    file: &'a RuleFile,
    counters: &'a [Counter],
    machine: &'a Machine,
    history: &'a History,
}

impl Explainer<'_> {
    fn piece(&self, expr: &Expr) -> Piece {
        let pieces = expr
            .children()
            .filter(|child| !matches!(child.kind, ExprKind::Number(_)))
            .map(|child| self.piece(child))
            .collect();
        Piece { span: expr.span, value: self.value(expr), pieces }
    }

    fn value(&self, expr: &Expr) -> Value {
        let Some(part) = part(self.file, self.counters, self.machine, expr) else {
            return Value::Unread;
        };
        match part.code.run(self.history) {
            Ok(value) if part.is_truth => Value::Truth(value != 0.0),
            Ok(value) => Value::Number(value),
            Err(fault) => Value::Fault(fault),
        }
    }
}
