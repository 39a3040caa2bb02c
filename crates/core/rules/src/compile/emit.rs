//! Steps for an expression, with the check that numbers and truth values are not mixed.

use crate::ast::{BinaryOp, Expr, ExprKind, Function};
use crate::diag::{Diagnostic, Span};
use crate::file::RuleFile;
use crate::program::{Code, Op, STACK};
use base::Kib;
use model::counters::{Counter, KernelNames};

/// Maximum number of steps of one expression. Variables are copied into each place that uses them,
/// so a short file could grow without bound. The default preset has 170 steps.
pub(super) const MAX_OPS: usize = 16_384;

/// The type that the context of an expression needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    Number,
    Truth,
}

#[derive(Default)]
pub(super) struct Emitter {
    ops: Vec<Op>,
    spans: Vec<Span>,
    depth: usize,
    deepest: usize,
}

impl Emitter {
    pub(super) fn push(&mut self, op: Op, span: Span) {
        if self.ops.len() <= MAX_OPS {
            self.ops.push(op);
            self.spans.push(span);
        }
        match op {
            Op::Const(_) | Op::Load { .. } => self.depth += 1,
            Op::Negate | Op::Not | Op::Truth | Op::OneIfZero => {}
            _ => self.depth = self.depth.saturating_sub(1),
        }
        self.deepest = self.deepest.max(self.depth);
    }

    /// Sets the target of an earlier skip to the next step.
    fn land(&mut self, skip: usize) {
        let target = self.ops.len() as u16;
        match self.ops.get_mut(skip) {
            Some(Op::SkipIfFalse(to) | Op::SkipIfTrue(to)) => *to = target,
            _ => debug_assert!(self.ops.len() > MAX_OPS, "only a skip has a target"),
        }
    }
}

/// The known properties of the machine for which a rules file is compiled.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// The counters that its kernel has; `None` if they are unknown.
    pub names: Option<KernelNames>,
    /// CPUs that are online or can be plugged.
    pub cpus_usable: Option<u32>,
    /// The machine's memory, the pool included.
    pub memory: Option<Kib>,
    /// True if the machine has a pool that can take memory.
    pub pool: Option<bool>,
}

/// A file during compilation, and its diagnostics.
pub(super) struct Compiler<'a> {
    pub(super) file: &'a RuleFile,
    pub(super) machine: &'a Machine,
    pub(super) counters: Vec<Counter>,
    /// Maximum age, in intervals, of a value that a step loads.
    pub(super) deepest: usize,
    /// Expressions visited for the current rule, including those without steps.
    pub(super) visited: usize,
    pub(super) found: Vec<Diagnostic>,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(
        file: &'a RuleFile,
        machine: &'a Machine,
        counters: Vec<Counter>,
    ) -> Compiler<'a> {
        Compiler { file, machine, counters, deepest: 0, visited: 0, found: Vec::new() }
    }
}

impl Compiler<'_> {
    pub(super) fn is_truth(&self, expr: &Expr) -> bool {
        let variable = |index: usize| {
            let value = self.file.variables.get(index).and_then(|v| v.expr.as_ref());
            value.is_some_and(|expr| self.is_truth(expr))
        };
        expr.is_truth(&variable)
    }

    pub(super) fn code(&mut self, expr: &Expr, want: Want) -> Code {
        let mut out = Emitter::default();
        self.visited = 0;
        self.emit(&mut out, expr, want, 0);
        if out.deepest > STACK {
            let message = "The expression is nested too deeply";
            self.found.push(Diagnostic::error("too-deep", expr.span, message));
        }
        Code { ops: out.ops.into(), spans: out.spans.into() }
    }

    /// Emits the steps for the value of an expression `shift` intervals ago.
    fn emit(&mut self, out: &mut Emitter, expr: &Expr, want: Want, shift: u8) {
        self.visited += 1;
        if self.visited > MAX_OPS || out.ops.len() > MAX_OPS {
            return;
        }
        let span = expr.span;
        match &expr.kind {
            // The steps of a variable are those of its value, so diagnostics point into the value.
            ExprKind::Variable(index) => {
                let value = self.file.variables.get(*index).and_then(|v| v.expr.as_ref());
                if let Some(value) = value {
                    self.emit(out, value, want, shift);
                }
                return;
            }
            _ if want == Want::Number && self.is_truth(expr) => {
                self.found.push(truth_as_number(expr));
                return;
            }
            ExprKind::Number(value) => out.push(Op::Const(*value), span),
            ExprKind::Counter(counter, age) => {
                self.load(out, counter, age.saturating_add(shift), span)
            }
            ExprKind::Keyword(keyword) => self.keyword(out, *keyword, shift, span),
            ExprKind::Negate(x) => {
                self.emit(out, x, Want::Number, shift);
                out.push(Op::Negate, span);
            }
            ExprKind::Not(x) => {
                self.emit(out, x, Want::Truth, shift);
                out.push(Op::Not, span);
            }
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), x, y) => {
                self.emit(out, x, Want::Truth, shift);
                let skip = out.ops.len();
                out.push(
                    if *op == BinaryOp::And { Op::SkipIfFalse(0) } else { Op::SkipIfTrue(0) },
                    span,
                );
                self.emit(out, y, Want::Truth, shift);
                out.land(skip);
            }
            ExprKind::Binary(op, x, y) => {
                self.emit(out, x, Want::Number, shift);
                self.emit(out, y, Want::Number, shift);
                out.push(Op::Binary(*op), span);
            }
            ExprKind::Call(function, x, n) => self.call(out, *function, x, *n, shift, span),
            ExprKind::Broken => {}
        }
        let number = !self.is_truth(expr);
        if want == Want::Truth && number {
            out.push(Op::Truth, span);
        }
    }

    fn call(
        &mut self,
        out: &mut Emitter,
        function: Function,
        x: &Expr,
        n: u8,
        shift: u8,
        span: Span,
    ) {
        match function {
            Function::Delta | Function::Rate => {
                self.emit(out, x, Want::Number, shift);
                self.emit(out, x, Want::Number, shift.saturating_add(n));
                out.push(Op::Binary(BinaryOp::Subtract), span);
                if function == Function::Rate {
                    self.load(out, &Counter::Time, shift, span);
                    self.load(out, &Counter::Time, shift.saturating_add(n), span);
                    out.push(Op::Binary(BinaryOp::Subtract), span);
                    out.push(Op::Binary(BinaryOp::Divide), span);
                }
            }
            Function::Min | Function::Max | Function::Avg => {
                self.emit(out, x, Want::Number, shift);
                for age in 1..n {
                    self.emit(out, x, Want::Number, shift.saturating_add(age));
                    let fold = match function {
                        Function::Min => Op::Min,
                        Function::Max => Op::Max,
                        _ => Op::Binary(BinaryOp::Add),
                    };
                    out.push(fold, span);
                }
                if function == Function::Avg {
                    out.push(Op::Const(f64::from(n)), span);
                    out.push(Op::Binary(BinaryOp::Divide), span);
                }
            }
            Function::Over => {
                let mut skips = Vec::new();
                for age in 0..n {
                    self.emit(out, x, Want::Truth, shift.saturating_add(age));
                    if age + 1 < n {
                        skips.push(out.ops.len());
                        out.push(Op::SkipIfFalse(0), span);
                    }
                }
                for skip in skips {
                    out.land(skip);
                }
            }
        }
    }
}

fn truth_as_number(expr: &Expr) -> Diagnostic {
    let what = match &expr.kind {
        ExprKind::Not(_) => "A negation with `!`",
        ExprKind::Binary(op, ..) if op.is_comparison() => "A comparison",
        ExprKind::Call(..) => "The result of `over`",
        _ => "The result of `&` or `|`",
    };
    Diagnostic::error("type", expr.span, format!("{what} is not a number"))
        .label("true or false, but used as a number")
        .help("check the parentheses, also behind a unary `-` or `!`")
}
