//! A rules file made ready to run: flat code over numbered counters.
//!
//! Evaluation takes no memory and has no loops: the number of steps is fixed when
//! the file is compiled. A truth value is 1 or 0 on the same stack as the numbers;
//! the compiler has made sure that neither is used as the other.

use crate::ast::BinaryOp;
use crate::diag::Span;
use counters::{Counter, History};
use std::fmt;

/// The deepest stack that an expression may need.
pub(crate) const STACK: usize = 128;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    Const(f64),
    Load {
        slot: u16,
        age: u8,
    },
    /// Arithmetic and comparisons; `&` and `|` are skips.
    Binary(BinaryOp),
    Negate,
    Not,
    /// A number used as a rule: true when it is not 0.
    Truth,
    /// The smaller, the larger of two numbers.
    Min,
    Max,
    /// 0 becomes 1: the original's guard where no tick has passed.
    OneIfZero,
    /// Leaves a false (true) value as the result and skips ahead; drops it otherwise.
    SkipIfFalse(u16),
    SkipIfTrue(u16),
}

/// The steps of one expression.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Code {
    pub(crate) ops: Box<[Op]>,
    /// Where each step stands in the file.
    pub(crate) spans: Box<[Span]>,
}

/// Why an expression has no value in this interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// A division by zero, where the original's processor traps.
    DivisionByZero,
    /// A result too large for a number.
    Overflow,
    /// A result that is no number, or does not fit a whole one.
    Invalid,
    /// A counter that was not read in that interval.
    Missing {
        /// Which counter of the program.
        slot: usize,
        /// How many intervals ago.
        age: usize,
    },
}

/// An expression that has no value in this interval, and where.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// What happened.
    pub kind: FaultKind,
    /// The piece of the rules file that it happened in.
    pub span: Span,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            FaultKind::DivisionByZero => f.write_str("Division by zero"),
            FaultKind::Overflow => f.write_str("Result too large"),
            FaultKind::Invalid => f.write_str("Result is no number"),
            FaultKind::Missing { .. } => f.write_str("Counter was not read"),
        }
    }
}

/// The bounds and the rules of CPU management.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuRules {
    /// The fewest CPUs online.
    pub min: u32,
    /// The most CPUs online; 0 is as many as are present.
    pub max: u32,
    pub(crate) hotplug: Code,
    pub(crate) hotunplug: Code,
}

/// The bounds and the rules of memory management.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryRules {
    /// The smallest pool, in pages.
    pub min: u64,
    /// The largest pool, in pages.
    pub max: u64,
    pub(crate) memplug: Code,
    pub(crate) memunplug: Code,
    pub(crate) inc: Code,
    /// What CMM_INC says where the file has no CMM_DEC.
    pub(crate) dec: Option<Code>,
}

/// A compiled rules file.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Seconds between two looks.
    pub update: u64,
    /// The counters to read, in slot order.
    pub counters: Vec<Counter>,
    /// How many intervals the rules look back, at least 1.
    pub intervals: usize,
    /// CPU management, where the file has all that it needs.
    pub cpu: Option<CpuRules>,
    /// Memory management, where the file has all that it needs.
    pub memory: Option<MemoryRules>,
}

/// The sizes of both steps and what the two memory rules say, as they stand in one
/// interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// Pages to grow the pool by.
    pub inc: i64,
    /// Pages to shrink the pool by.
    pub dec: i64,
}

impl CpuRules {
    /// Whether a CPU is wanted.
    pub fn hotplug(&self, history: &History) -> Result<bool, Fault> {
        self.hotplug.run(history).map(is_true)
    }

    /// Whether a CPU can be given up.
    pub fn hotunplug(&self, history: &History) -> Result<bool, Fault> {
        self.hotunplug.run(history).map(is_true)
    }
}

impl MemoryRules {
    /// Whether memory is wanted: the pool shrinks.
    pub fn memplug(&self, history: &History) -> Result<bool, Fault> {
        self.memplug.run(history).map(is_true)
    }

    /// Whether memory can be given up: the pool grows.
    pub fn memunplug(&self, history: &History) -> Result<bool, Fault> {
        self.memunplug.run(history).map(is_true)
    }

    /// The sizes of a step, truncated to whole pages as the original does.
    pub fn steps(&self, history: &History) -> Result<Steps, Fault> {
        let inc = self.inc.whole(history)?;
        let dec = self.dec.as_ref().map_or(Ok(inc), |dec| dec.whole(history))?;
        Ok(Steps { inc, dec })
    }
}

pub(crate) fn is_true(value: f64) -> bool {
    value != 0.0
}

impl Code {
    /// The value without its fraction.
    pub(crate) fn whole(&self, history: &History) -> Result<i64, Fault> {
        let value = self.run(history)?.trunc();
        // The first number past i64; below it every whole number fits.
        let limit = i64::MAX as f64;
        if value >= limit || value < -limit {
            let span = self.spans.last().copied().unwrap_or_default();
            return Err(Fault { kind: FaultKind::Invalid, span });
        }
        Ok(value as i64)
    }

    /// The value of the expression. The compiler has bounded the stack; a fault in
    /// it would be a programmer's error and shows as a number that is missing.
    pub(crate) fn run(&self, history: &History) -> Result<f64, Fault> {
        let mut stack = [0.0_f64; STACK];
        let mut top = 0;
        let mut at = 0;
        while let Some(&op) = self.ops.get(at) {
            let fault = |kind| Fault { kind, span: self.spans[at] };
            match op {
                Op::Const(value) => {
                    stack[top] = value;
                    top += 1;
                }
                Op::Load { slot, age } => {
                    let (slot, age) = (usize::from(slot), usize::from(age));
                    let value = history.raw(slot, age);
                    if value.is_nan() {
                        return Err(fault(FaultKind::Missing { slot, age }));
                    }
                    stack[top] = value;
                    top += 1;
                }
                Op::SkipIfFalse(to) | Op::SkipIfTrue(to) => {
                    if is_true(stack[top - 1]) == matches!(op, Op::SkipIfTrue(_)) {
                        at = usize::from(to);
                        continue;
                    }
                    top -= 1;
                }
                Op::Negate => stack[top - 1] = -stack[top - 1],
                Op::Not => stack[top - 1] = truth(!is_true(stack[top - 1])),
                Op::Truth => stack[top - 1] = truth(is_true(stack[top - 1])),
                Op::OneIfZero => {
                    if stack[top - 1] == 0.0 {
                        stack[top - 1] = 1.0;
                    }
                }
                Op::Binary(_) | Op::Min | Op::Max => {
                    top -= 1;
                    stack[top - 1] = binary(op, stack[top - 1], stack[top]).map_err(fault)?;
                }
            }
            at += 1;
        }
        Ok(stack[0])
    }
}

fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

fn binary(op: Op, a: f64, b: f64) -> Result<f64, FaultKind> {
    let value = match op {
        Op::Binary(BinaryOp::Add) => a + b,
        Op::Binary(BinaryOp::Subtract) => a - b,
        Op::Binary(BinaryOp::Multiply) => a * b,
        Op::Binary(BinaryOp::Divide) if b == 0.0 => return Err(FaultKind::DivisionByZero),
        Op::Binary(BinaryOp::Divide) => a / b,
        Op::Binary(BinaryOp::Less) => truth(a < b),
        Op::Binary(BinaryOp::Greater) => truth(a > b),
        Op::Binary(BinaryOp::LessEqual) => truth(a <= b),
        Op::Binary(BinaryOp::GreaterEqual) => truth(a >= b),
        Op::Binary(BinaryOp::Equal) => truth(a == b),
        Op::Binary(BinaryOp::NotEqual) => truth(a != b),
        Op::Min => a.min(b),
        Op::Max => a.max(b),
        // The other steps do not come here.
        _ => f64::NAN,
    };
    if value.is_finite() {
        Ok(value)
    } else if value.is_nan() {
        Err(FaultKind::Invalid)
    } else {
        Err(FaultKind::Overflow)
    }
}
