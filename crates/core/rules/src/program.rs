//! A compiled rules file: flat code over numbered counters.
//!
//! Evaluation allocates no memory and has no loops: the number of steps is fixed at compile time. A
//! truth value is 1 or 0 on the same stack as the numbers; the compiler ensures that they are never
//! confused.

use crate::ast::BinaryOp;
use crate::diag::Span;
use model::counters::{Counter, History};
use std::fmt;

/// Maximum depth of the stack that an expression may need.
pub(crate) const STACK: usize = 128;

/// One step of the code.
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
    /// Conversion of a number that is used as a rule: true if the number is not 0.
    Truth,
    /// The smaller (`Min`) or the larger (`Max`) of two numbers.
    Min,
    Max,
    /// Replaces 0 by 1, as `cpuplugd` does for intervals in which no tick has passed.
    OneIfZero,
    /// Skips ahead and leaves the value as the result if the value is false (or true). Otherwise
    /// drops the value.
    SkipIfFalse(u16),
    SkipIfTrue(u16),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Code {
    pub(crate) ops: Box<[Op]>,
    /// The position of each step in the file.
    pub(crate) spans: Box<[Span]>,
}

/// The reason why an expression has no value in this interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// A division by zero, at which the original's processor traps.
    DivisionByZero,
    /// A result too large for a number.
    Overflow,
    /// A result that is not a number, or does not fit a whole number.
    Invalid,
    /// A counter that was not read in that interval.
    Missing {
        /// The counter's slot in the program.
        slot: usize,
        /// The age in intervals.
        age: usize,
    },
}

/// The reason why an expression has no value in this interval, and its position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// The part of the rules file that caused it.
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
    /// Minimum number of online CPUs.
    pub min: u32,
    /// Maximum number of online CPUs; 0 means all CPUs present.
    pub max: u32,
    pub(crate) hotplug: Code,
    pub(crate) hotunplug: Code,
}

/// The bounds and the rules of memory management.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryRules {
    /// The smallest pool, in pages.
    pub min: u64,
    /// Maximum size of the pool, in pages.
    pub max: u64,
    pub(crate) memplug: Code,
    pub(crate) memunplug: Code,
    pub(crate) inc: Code,
    /// Code of CMM_DEC. If the file has no CMM_DEC, the value of CMM_INC is used.
    pub(crate) dec: Option<Code>,
}

/// A compiled rules file.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Seconds between two samples.
    pub update: u64,
    /// The counters to read, in slot order.
    pub counters: Vec<Counter>,
    /// Number of past intervals that the rules use, at least 1.
    pub intervals: usize,
    /// CPU management, if the file has all its settings.
    pub cpu: Option<CpuRules>,
    /// Memory management, if the file has all its settings.
    pub memory: Option<MemoryRules>,
}

/// The sizes of both steps in one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// Pages to grow the pool by.
    pub inc: i64,
    /// Pages to shrink the pool by.
    pub dec: i64,
}

impl CpuRules {
    /// Returns true if the rules request one more CPU.
    pub fn hotplug(&self, history: &History) -> Result<bool, Fault> {
        self.hotplug.run(history).map(is_true)
    }

    /// Returns true if a CPU can be unplugged.
    pub fn hotunplug(&self, history: &History) -> Result<bool, Fault> {
        self.hotunplug.run(history).map(is_true)
    }
}

impl MemoryRules {
    /// Returns true if the guest needs memory, so that the pool shrinks.
    pub fn memplug(&self, history: &History) -> Result<bool, Fault> {
        self.memplug.run(history).map(is_true)
    }

    /// Returns true if the guest can spare memory, so that the pool grows.
    pub fn memunplug(&self, history: &History) -> Result<bool, Fault> {
        self.memunplug.run(history).map(is_true)
    }

    /// Returns the sizes of both steps, truncated to whole pages as the original does.
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
    /// Returns the value without its fraction.
    pub(crate) fn whole(&self, history: &History) -> Result<i64, Fault> {
        let value = self.run(history)?.trunc();
        // The smallest number that does not fit an i64.
        let limit = i64::MAX as f64;
        if value >= limit || value < -limit {
            let span = self.spans.last().copied().unwrap_or_default();
            return Err(Fault { kind: FaultKind::Invalid, span });
        }
        Ok(value as i64)
    }

    /// Evaluates the expression. The compiler has bounded the stack; a violation would be a
    /// programmer's error, and shows as a missing value.
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
        // The other steps never reach this code.
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
