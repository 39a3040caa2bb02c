//! From trees to flat code: types are checked, names become numbers.

use crate::ast::{BinaryOp, Expr, ExprKind, Function, Keyword};
use crate::diag::{Diagnostic, Severity, Span, has_errors};
use crate::file::{Name, RuleFile, RuleText};
use crate::names::nearest;
use crate::parse::{MAX_HISTORY, quoted};
use crate::program::{Code, CpuRules, MemoryRules, Op, Program, STACK};
use counters::{Counter, CpuField, KernelNames, Kib, PAGE_KIB, retired};

/// The most steps of one expression. Variables are copied into each place that uses
/// them, so that a short file could grow without bound; the default preset has 170.
const MAX_OPS: usize = 16_384;

/// The machine that a rules file is to run on, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// The counters that its kernel has; `None` if that is not known.
    pub names: Option<KernelNames>,
    /// The CPUs that are present.
    pub cpus_present: Option<u32>,
    /// All the memory there is, the pool included.
    pub memory: Option<Kib>,
    /// Whether it has a pool that memory can be given to.
    pub pool: Option<bool>,
}

/// Compiles a file for a machine. There is a program only where no error is found.
pub fn compile(file: &RuleFile, machine: &Machine) -> (Option<Program>, Vec<Diagnostic>) {
    let mut compiler =
        Compiler { file, machine, counters: Vec::new(), deepest: 0, visited: 0, found: Vec::new() };
    let program = compiler.program();
    let mut found = compiler.found;
    found.sort_by_key(|d| (d.span.start, d.span.end));
    found.dedup();
    (program.filter(|_| !has_errors(&found)), found)
}

/// A piece of a rule, compiled on its own.
pub(crate) struct Part {
    pub(crate) code: Code,
    /// Whether it is true or false rather than a number.
    pub(crate) is_truth: bool,
}

/// Compiles one expression of a file against the counters of its program, to show
/// the value of a piece of a rule. `None` where the piece needs another counter.
pub(crate) fn part(
    file: &RuleFile,
    program: &Program,
    machine: &Machine,
    expr: &Expr,
) -> Option<Part> {
    let counters = program.counters.clone();
    let known = counters.len();
    let mut compiler =
        Compiler { file, machine, counters, deepest: 0, visited: 0, found: Vec::new() };
    let is_truth = compiler.is_truth(expr);
    let code = compiler.code(expr, if is_truth { Want::Truth } else { Want::Number });
    let usable = compiler.counters.len() == known && !has_errors(&compiler.found);
    usable.then_some(Part { code, is_truth })
}

/// What an expression is used as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    Number,
    Truth,
}

struct Compiler<'a> {
    file: &'a RuleFile,
    machine: &'a Machine,
    counters: Vec<Counter>,
    /// The largest age that a step loads.
    deepest: usize,
    /// Expressions visited for the current rule, also those that emit nothing.
    visited: usize,
    found: Vec<Diagnostic>,
}

#[derive(Default)]
struct Emitter {
    ops: Vec<Op>,
    spans: Vec<Span>,
    depth: usize,
    deepest: usize,
}

impl Emitter {
    fn push(&mut self, op: Op, span: Span) {
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

    /// Points an earlier skip to the next step.
    fn land(&mut self, skip: usize) {
        let target = self.ops.len() as u16;
        match self.ops.get_mut(skip) {
            Some(Op::SkipIfFalse(to) | Op::SkipIfTrue(to)) => *to = target,
            _ => debug_assert!(self.ops.len() > MAX_OPS, "only a skip has a target"),
        }
    }
}

impl Compiler<'_> {
    fn program(&mut self) -> Option<Program> {
        let at = Span::new(0, 1);
        let update = self.file.setting(Name::Update);
        if update.is_none() {
            let error = Diagnostic::error("update", at, "UPDATE is not set")
                .help("UPDATE=\"1\" looks once a second");
            self.found.push(error);
        }
        let (cpu_on, memory_on) = (self.cpu_on(), self.memory_on());
        if !cpu_on && !memory_on {
            let message = "Neither CPU nor memory management has all that it needs";
            self.found.push(Diagnostic::error("nothing-to-do", at, message));
        }
        let cpu = self.group(cpu_on, Self::cpu);
        let memory = self.group(memory_on, Self::memory);
        let intervals = usize::from(self.file.history).max(self.deepest);
        let update = update?.value;
        Some(Program {
            update,
            counters: std::mem::take(&mut self.counters),
            intervals,
            cpu,
            memory,
        })
    }

    /// Compiles a group; one that is off is checked too, but asks for no counters.
    fn group<T>(&mut self, on: bool, compile: fn(&mut Self) -> Option<T>) -> Option<T> {
        let (counters, deepest, before) = (self.counters.clone(), self.deepest, self.found.len());
        let group = compile(self);
        if on {
            return group;
        }
        (self.counters, self.deepest) = (counters, deepest);
        for found in &mut self.found[before..] {
            if found.code == "unknown-counter" {
                found.severity = Severity::Warning;
            }
        }
        None
    }

    fn missing(&mut self, group: &str, names: &[Name]) -> bool {
        let missing: Vec<&str> = names
            .iter()
            .filter(|n| self.file.setting(**n).is_none() && self.file.rule(**n).is_none())
            .map(|n| n.name())
            .collect();
        if missing.is_empty() {
            return false;
        }
        let verb = if missing.len() == 1 { "is" } else { "are" };
        let message = format!("{group} management is off: {} {verb} not set", missing.join(", "));
        self.found.push(Diagnostic::warning("group-off", Span::new(0, 1), message));
        true
    }

    fn cpu_on(&mut self) -> bool {
        use Name::{CpuMax, CpuMin, Hotplug, Hotunplug};
        let on = !self.missing("CPU", &[CpuMin, CpuMax, Hotplug, Hotunplug]);
        let (Some(min), Some(max)) = (self.file.setting(CpuMin), self.file.setting(CpuMax)) else {
            return false;
        };
        for setting in [min, max] {
            if setting.value > u64::from(u32::MAX) {
                let error = Diagnostic::error("number", setting.span, "There are not so many CPUs");
                self.found.push(error);
            }
        }
        if max.value != 0 && max.value < min.value {
            let message = format!("CPU_MAX {} is below CPU_MIN {}", max.value, min.value);
            let error = Diagnostic::error("cpu-bounds", max.span, message)
                .help("CPU_MAX=\"0\" means all CPUs that are present");
            self.found.push(error);
        }
        if let Some(present) = self.machine.cpus_present
            && u64::from(present) < min.value
        {
            let message = format!("CPU_MIN is {}, but {present} CPUs are present", min.value);
            self.found.push(Diagnostic::error("cpu-bounds", min.span, message));
        }
        on
    }

    fn memory_on(&mut self) -> bool {
        use Name::{CmmInc, CmmMax, CmmMin, Memplug, Memunplug};
        let on = !self.missing("Memory", &[CmmMin, CmmMax, CmmInc, Memplug, Memunplug]);
        let (Some(min), Some(max)) = (self.file.setting(CmmMin), self.file.setting(CmmMax)) else {
            return false;
        };
        if self.machine.pool == Some(false) {
            let message = "Memory management is off: this guest has no pool to give memory to";
            let at = Span::new(0, 1);
            self.found.push(Diagnostic::warning("no-pool", at, message));
            return false;
        }
        if max.value < min.value {
            let message = format!(
                "Memory management is off: CMM_MAX {} is below CMM_MIN {}",
                max.value, min.value
            );
            self.found.push(Diagnostic::warning("group-off", max.span, message));
            return false;
        }
        if let Some(memory) = self.machine.memory.filter(|_| on)
            && max.value > memory.pages().0
        {
            let message = format!(
                "CMM_MAX is {} pages ({} MiB), more than the {} MiB that this guest has",
                max.value,
                max.value / (1024 / PAGE_KIB),
                memory.0 / 1024
            );
            let help = "the rules alone bound the pool; memory less 256 MiB is a usual maximum";
            self.found.push(Diagnostic::warning("cmm-max", max.span, message).help(help));
        }
        on
    }

    fn cpu(&mut self) -> Option<CpuRules> {
        let hotplug = self.rule(Name::Hotplug, Want::Truth);
        let hotunplug = self.rule(Name::Hotunplug, Want::Truth);
        let bound = |name| self.file.setting(name).and_then(|s| u32::try_from(s.value).ok());
        let (min, max) = (bound(Name::CpuMin)?, bound(Name::CpuMax)?);
        Some(CpuRules { min, max, hotplug: hotplug?, hotunplug: hotunplug? })
    }

    fn memory(&mut self) -> Option<MemoryRules> {
        let memplug = self.rule(Name::Memplug, Want::Truth);
        let memunplug = self.rule(Name::Memunplug, Want::Truth);
        let inc = self.rule(Name::CmmInc, Want::Number);
        let dec = self.rule(Name::CmmDec, Want::Number);
        let bound = |name| self.file.setting(name).map(|s| s.value);
        let (min, max) = (bound(Name::CmmMin)?, bound(Name::CmmMax)?);
        Some(MemoryRules { min, max, memplug: memplug?, memunplug: memunplug?, inc: inc?, dec })
    }

    fn rule(&mut self, name: Name, want: Want) -> Option<Code> {
        let RuleText { expr, name: span } = self.file.rule(name)?;
        let code = self.code(expr, want);
        if code.ops.len() > MAX_OPS || self.visited > MAX_OPS {
            let message = format!("{} needs more than {MAX_OPS} steps", name.name());
            let error = Diagnostic::error("too-large", *span, message)
                .help("variables are copied into each place that uses them; use fewer");
            self.found.push(error);
        }
        Some(code)
    }

    fn is_truth(&self, expr: &Expr) -> bool {
        let variable = |index: usize| {
            let value = self.file.variables.get(index).and_then(|v| v.expr.as_ref());
            value.is_some_and(|expr| self.is_truth(expr))
        };
        expr.is_truth(&variable)
    }

    fn code(&mut self, expr: &Expr, want: Want) -> Code {
        let mut out = Emitter::default();
        self.visited = 0;
        self.emit(&mut out, expr, want, 0);
        if out.deepest > STACK {
            let message = "The expression is nested too deeply";
            self.found.push(Diagnostic::error("too-deep", expr.span, message));
        }
        Code { ops: out.ops.into(), spans: out.spans.into() }
    }

    /// Emits an expression as it was `shift` intervals ago.
    fn emit(&mut self, out: &mut Emitter, expr: &Expr, want: Want, shift: u8) {
        self.visited += 1;
        if self.visited > MAX_OPS || out.ops.len() > MAX_OPS {
            return;
        }
        let span = expr.span;
        match &expr.kind {
            // Through a variable the place that is wrong is inside it.
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
                out.push(operation(*op), span);
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
                out.push(Op::Subtract, span);
                if function == Function::Rate {
                    self.load(out, &Counter::Time, shift, span);
                    self.load(out, &Counter::Time, shift.saturating_add(n), span);
                    out.push(Op::Subtract, span);
                    out.push(Op::Divide, span);
                }
            }
            Function::Min | Function::Max | Function::Avg => {
                self.emit(out, x, Want::Number, shift);
                for age in 1..n {
                    self.emit(out, x, Want::Number, shift.saturating_add(age));
                    let fold = match function {
                        Function::Min => Op::Min,
                        Function::Max => Op::Max,
                        _ => Op::Add,
                    };
                    out.push(fold, span);
                }
                if function == Function::Avg {
                    out.push(Op::Const(f64::from(n)), span);
                    out.push(Op::Divide, span);
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

    fn keyword(&mut self, out: &mut Emitter, keyword: Keyword, shift: u8, span: Span) {
        match keyword {
            Keyword::LoadAvg => self.load(out, &Counter::LoadAvg, shift, span),
            Keyword::RunnableProc => self.load(out, &Counter::RunnableProc, shift, span),
            Keyword::OnlineCpus => self.load(out, &Counter::OnlineCpus, shift, span),
            Keyword::FreeMem => {
                self.load(out, &Counter::meminfo("MemFree"), shift, span);
                out.push(Op::Const(1024.0), span);
                out.push(Op::Divide, span);
            }
            Keyword::Percent(field) => {
                self.delta(out, &Counter::Cpu(field), shift, span);
                self.delta(out, &Counter::Cpu(CpuField::TotalTicks), shift, span);
                out.push(Op::OneIfZero, span);
                out.push(Op::Divide, span);
                out.push(Op::Const(100.0), span);
                self.load(out, &Counter::OnlineCpus, shift, span);
                out.push(Op::Multiply, span);
                out.push(Op::Multiply, span);
            }
            Keyword::SwapRate => self.rate(out, ["pswpin", "pswpout"], shift, span),
            Keyword::Apcr => self.rate(out, ["pgpgin", "pgpgout"], shift, span),
        }
    }

    fn delta(&mut self, out: &mut Emitter, counter: &Counter, shift: u8, span: Span) {
        self.load(out, counter, shift, span);
        self.load(out, counter, shift.saturating_add(1), span);
        out.push(Op::Subtract, span);
    }

    /// The growth of two counters together, a second.
    fn rate(&mut self, out: &mut Emitter, names: [&str; 2], shift: u8, span: Span) {
        let [first, second] = names.map(Counter::vmstat);
        self.load(out, &first, shift, span);
        self.load(out, &second, shift, span);
        out.push(Op::Add, span);
        self.load(out, &first, shift.saturating_add(1), span);
        out.push(Op::Subtract, span);
        self.load(out, &second, shift.saturating_add(1), span);
        out.push(Op::Subtract, span);
        self.delta(out, &Counter::Time, shift, span);
        out.push(Op::Divide, span);
    }

    fn load(&mut self, out: &mut Emitter, counter: &Counter, age: u8, span: Span) {
        if age > MAX_HISTORY {
            let message = format!("The history reaches back {MAX_HISTORY} intervals at most");
            self.found.push(Diagnostic::error("history", span, message));
            return;
        }
        if let Counter::Vmstat(name) = counter
            && let Some(names) = &self.machine.names
            && !names.has_vmstat(name)
            && let Some(retired) = retired(name)
        {
            self.retired(name, retired.reads, span);
            // The sum of the lines that the family has today, 0 where it has none.
            let mut some = false;
            for read in retired.reads {
                self.load(out, &Counter::vmstat(read), age, span);
                if std::mem::replace(&mut some, true) {
                    out.push(Op::Add, span);
                }
            }
            if !some {
                out.push(Op::Const(0.0), span);
            }
            return;
        }
        self.known(counter, span);
        let slot = match self.counters.iter().position(|c| c == counter) {
            Some(slot) => slot,
            None => {
                self.counters.push(counter.clone());
                self.counters.len() - 1
            }
        };
        self.deepest = self.deepest.max(usize::from(age));
        out.push(Op::Load { slot: slot as u16, age }, span);
    }

    fn retired(&mut self, name: &str, reads: &[&str], span: Span) {
        let now = match reads {
            [] => "reads 0, since its family is counted once".to_string(),
            _ => format!("reads {}", reads.join(" + ")),
        };
        let message = format!("This kernel no longer has vmstat.{name}; it {now}");
        let warning = Diagnostic::warning("retired-counter", span, message)
            .help("kernels since 4.8 count reclaim by node, not by zone");
        self.found.push(warning);
    }

    fn known(&mut self, counter: &Counter, span: Span) {
        let Some(names) = &self.machine.names else { return };
        let (file, name, known) = match counter {
            Counter::Meminfo(name) => ("meminfo", name, &names.meminfo),
            Counter::Vmstat(name) => ("vmstat", name, &names.vmstat),
            Counter::Psi(..) if !names.psi => {
                let message = "This kernel has no pressure stall information";
                let error = Diagnostic::error("unknown-counter", span, message)
                    .help("boot with psi=1, or use a rule without psi counters");
                self.found.push(error);
                return;
            }
            _ => return,
        };
        if known.iter().any(|n| n == name) {
            return;
        }
        let near = nearest(name, known.iter().map(|n| &**n));
        let error = Diagnostic::error(
            "unknown-counter",
            span,
            format!("This kernel has no `{name}` in /proc/{file}"),
        );
        let help = match near[..] {
            [] => format!("`cat /proc/{file}` shows the names that it has"),
            _ => format!("did you mean {}?", quoted(&near)),
        };
        self.found.push(error.label("no such counter").help(help));
    }
}

fn truth_as_number(expr: &Expr) -> Diagnostic {
    let what = match &expr.kind {
        ExprKind::Not(_) => "a negation with `!`",
        ExprKind::Binary(op, ..) if op.is_comparison() => "a comparison",
        _ => "a logical result",
    };
    Diagnostic::error("type", expr.span, format!("The result of {what} is used as a number"))
        .label("true or false, not a number")
        .help(
            "a rule may combine comparisons with & | !, but not calculate with them; check the \
               parentheses: a unary `-` or `!` takes all that binds tighter than what stands on \
               its left",
        )
}

fn operation(op: BinaryOp) -> Op {
    match op {
        BinaryOp::Less => Op::Less,
        BinaryOp::Greater => Op::Greater,
        BinaryOp::LessEqual => Op::LessEqual,
        BinaryOp::GreaterEqual => Op::GreaterEqual,
        BinaryOp::Equal => Op::Equal,
        BinaryOp::NotEqual => Op::NotEqual,
        BinaryOp::Add => Op::Add,
        BinaryOp::Subtract => Op::Subtract,
        BinaryOp::Multiply => Op::Multiply,
        // And and Or were turned into skips.
        BinaryOp::Divide | BinaryOp::And | BinaryOp::Or => Op::Divide,
    }
}
