//! The range of values that an expression can have, whatever its counters are. The range suffices
//! to detect comparisons that are always or never true.

use crate::ast::{BinaryOp, Expr, ExprKind, Function, Keyword};
use crate::file::RuleFile;
use model::counters::Counter;

/// The known result of a truth value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Never,
    Open,
    Always,
}

impl Outcome {
    fn not(self) -> Outcome {
        match self {
            Outcome::Never => Outcome::Always,
            Outcome::Open => Outcome::Open,
            Outcome::Always => Outcome::Never,
        }
    }
}

/// All numbers from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    low: f64,
    high: f64,
}

const ANY: Range = Range { low: f64::NEG_INFINITY, high: f64::INFINITY };
const NOT_NEGATIVE: Range = Range { low: 0.0, high: f64::INFINITY };

impl Range {
    fn of(values: [f64; 4]) -> Range {
        // 0 times infinity: the bound is unknown.
        if values.iter().any(|v| v.is_nan()) {
            return ANY;
        }
        let low = values.into_iter().fold(f64::INFINITY, f64::min);
        let high = values.into_iter().fold(f64::NEG_INFINITY, f64::max);
        Range { low, high }
    }
}

pub(crate) struct Ranges<'a> {
    file: &'a RuleFile,
    /// Number of expressions left to visit. Variables are followed at each use, so the work could
    /// grow without bound.
    left: std::cell::Cell<u32>,
}

impl<'a> Ranges<'a> {
    pub(crate) fn new(file: &'a RuleFile) -> Ranges<'a> {
        Ranges { file, left: std::cell::Cell::new(10_000) }
    }

    pub(crate) fn truth(&self, expr: &Expr) -> Outcome {
        use Outcome::{Always, Never, Open};
        match &expr.kind {
            ExprKind::Not(x) => self.truth(x).not(),
            ExprKind::Binary(BinaryOp::And, x, y) => match (self.truth(x), self.truth(y)) {
                (Never, _) | (_, Never) => Never,
                (Always, Always) => Always,
                _ => Open,
            },
            ExprKind::Binary(BinaryOp::Or, x, y) => match (self.truth(x), self.truth(y)) {
                (Always, _) | (_, Always) => Always,
                (Never, Never) => Never,
                _ => Open,
            },
            ExprKind::Binary(op, x, y) if op.is_comparison() => self.compare(*op, x, y),
            ExprKind::Call(Function::Over, x, _) => self.truth(x),
            ExprKind::Variable(index) => match &self.file.variables[*index].expr {
                Some(value) if self.visit() => self.truth(value),
                _ => Open,
            },
            _ => match self.range(expr) {
                Range { low: 0.0, high: 0.0 } => Never,
                Range { low, high } if low > 0.0 || high < 0.0 => Always,
                _ => Open,
            },
        }
    }

    /// Returns true if a number is 0 or less for any counters.
    pub(crate) fn is_never_positive(&self, expr: &Expr) -> bool {
        self.range(expr).high <= 0.0
    }

    fn visit(&self) -> bool {
        self.left.set(self.left.get().saturating_sub(1));
        self.left.get() > 0
    }

    fn compare(&self, op: BinaryOp, x: &Expr, y: &Expr) -> Outcome {
        let (a, b) = (self.range(x), self.range(y));
        let less = |a: Range, b: Range| {
            if a.high < b.low {
                Outcome::Always
            } else if a.low >= b.high {
                Outcome::Never
            } else {
                Outcome::Open
            }
        };
        match op {
            BinaryOp::Less => less(a, b),
            BinaryOp::Greater => less(b, a),
            BinaryOp::LessEqual => less(b, a).not(),
            BinaryOp::GreaterEqual => less(a, b).not(),
            _ if a.high < b.low || b.high < a.low => match op {
                BinaryOp::Equal => Outcome::Never,
                _ => Outcome::Always,
            },
            _ => Outcome::Open,
        }
    }

    fn range(&self, expr: &Expr) -> Range {
        if !self.visit() {
            return ANY;
        }
        match &expr.kind {
            ExprKind::Number(value) => Range { low: *value, high: *value },
            ExprKind::Counter(counter, _) => counter_range(counter),
            ExprKind::Keyword(keyword) => match keyword {
                Keyword::OnlineCpus => Range { low: 1.0, high: f64::INFINITY },
                // All other keywords are sizes, or growth of counters that only grow.
                _ => NOT_NEGATIVE,
            },
            ExprKind::Variable(index) => {
                self.file.variables[*index].expr.as_ref().map_or(ANY, |value| self.range(value))
            }
            ExprKind::Negate(x) => {
                let Range { low, high } = self.range(x);
                Range { low: -high, high: -low }
            }
            ExprKind::Call(Function::Delta | Function::Rate, x, _) => match &x.kind {
                ExprKind::Counter(counter, _) if counter.is_monotonic() => NOT_NEGATIVE,
                _ => ANY,
            },
            ExprKind::Call(_, x, _) => self.range(x),
            ExprKind::Binary(op, x, y) => self.arithmetic(*op, x, y),
            ExprKind::Not(_) | ExprKind::Broken => ANY,
        }
    }

    fn arithmetic(&self, op: BinaryOp, x: &Expr, y: &Expr) -> Range {
        if op == BinaryOp::Subtract && is_growth(x, y) {
            return NOT_NEGATIVE;
        }
        let (a, b) = (self.range(x), self.range(y));
        match op {
            BinaryOp::Add => Range { low: a.low + b.low, high: a.high + b.high },
            BinaryOp::Subtract => Range { low: a.low - b.high, high: a.high - b.low },
            BinaryOp::Multiply => {
                Range::of([a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high])
            }
            // A divisor of 0 is a fault, so only other divisors bound the result.
            BinaryOp::Divide if b.low >= 0.0 && a.low >= 0.0 => {
                let low = if b.high.is_finite() { a.low / b.high } else { 0.0 };
                let high = if b.low > 0.0 { a.high / b.low } else { f64::INFINITY };
                Range { low, high }
            }
            _ => ANY,
        }
    }
}

/// Returns true if `x` is a later reading and `y` an earlier reading of a counter that only grows.
fn is_growth(x: &Expr, y: &Expr) -> bool {
    match (&x.kind, &y.kind) {
        (ExprKind::Counter(a, new), ExprKind::Counter(b, old)) => {
            a == b && new < old && a.is_monotonic()
        }
        _ => false,
    }
}

fn counter_range(counter: &Counter) -> Range {
    match counter {
        Counter::Host(counter) => {
            Range { low: 0.0, high: counter.unit().largest().unwrap_or(f64::INFINITY) }
        }
        Counter::OnlineCpus => Range { low: 1.0, high: f64::INFINITY },
        _ => NOT_NEGATIVE,
    }
}
