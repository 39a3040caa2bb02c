//! Warnings of constructs that are allowed, but probably not intended.

use crate::ast::{BinaryOp, Expr, ExprKind, Keyword};
use crate::diag::{Diagnostic, Span};
use crate::file::{Language, Name, RuleFile};
use crate::range::{Outcome, Ranges};
use model::counters::{Counter, CpuField};

/// Returns warnings of probable mistakes in a file that was parsed without errors.
pub fn lint(file: &RuleFile) -> Vec<Diagnostic> {
    let mut linter = Linter { file, found: Vec::new() };
    for (name, rule) in file.rules() {
        linter.rule(name, &rule.expr, rule.name);
    }
    linter.portable();
    linter.memory();
    linter.steps();
    let mut found = linter.found;
    found.sort_by_key(|d| (d.span.start, d.span.end));
    found.dedup();
    found
}

struct Linter<'a> {
    file: &'a RuleFile,
    found: Vec<Diagnostic>,
}

/// The direction in which a part changes an expression's value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl Direction {
    fn turned(self) -> Direction {
        match self {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }
}

impl Linter<'_> {
    fn warn(&mut self, code: &'static str, span: Span, message: impl Into<String>, help: &str) {
        self.found.push(Diagnostic::warning(code, span, message).help(help));
    }

    fn rule(&mut self, name: Name, expr: &Expr, at: Span) {
        let mut seen = vec![false; self.file.variables.len()];
        self.walk(expr, &mut seen, &mut |linter, part| {
            linter.precedence(part);
            linter.counter(part);
            linter.group(name, part);
            linter.division(part);
        });
        if name == Name::Hotplug {
            let mut seen = vec![[false; 2]; self.file.variables.len()];
            self.steal(expr, Direction::Up, &mut seen);
        }
        if name.is_rule() && !matches!(expr.kind, ExprKind::Number(_)) {
            self.decided(name, expr, at);
        }
    }

    /// Visits an expression, and once the value of each variable that it uses.
    fn walk(&mut self, expr: &Expr, seen: &mut [bool], visit: &mut dyn FnMut(&mut Self, &Expr)) {
        visit(self, expr);
        if let ExprKind::Variable(index) = expr.kind
            && !std::mem::replace(&mut seen[index], true)
        {
            let file = self.file;
            if let Some(value) = &file.variables[index].expr {
                self.walk(value, seen, visit);
            }
        }
        for child in expr.children() {
            self.walk(child, seen, visit);
        }
    }

    fn precedence(&mut self, expr: &Expr) {
        let (sign, operand, surprising) = match &expr.kind {
            ExprKind::Negate(x) => ('-', x, [BinaryOp::Add, BinaryOp::Subtract]),
            ExprKind::Not(x) => ('!', x, [BinaryOp::And, BinaryOp::Or]),
            _ => return,
        };
        if let ExprKind::Binary(op, ..) = operand.kind
            && surprising.contains(&op)
            && !operand.parenthesised
        {
            let message = format!("This `{sign}` applies to the whole expression behind it");
            let help = format!(
                "the original daemon does the same; write `{sign}(x {op} y)` for this meaning, or \
                 `({sign}x) {op} y` for the other",
                op = op.name()
            );
            self.found.push(
                Diagnostic::warning("precedence", expr.span, message)
                    .label(format!("read as `{sign}(...)` over all of this"))
                    .help(help),
            );
        }
    }

    /// Warns of a minimum of CPUs without a maximum, because the original aborts on such a file.
    fn portable(&mut self) {
        if let (Some(min), None) =
            (self.file.setting(Name::CpuMin), self.file.setting(Name::CpuMax))
            && self.file.language == Language::Original
        {
            self.warn(
                "portable",
                min.span,
                "The original daemon refuses a file with CPU_MIN and without CPU_MAX",
                "add CPU_MAX, or remove CPU_MIN: without both, CPUs are not managed",
            );
        }
    }

    /// Warns of counters that the original cannot use, because the original's names of counters
    /// contain only letters and `_`.
    fn counter(&mut self, expr: &Expr) {
        let ExprKind::Counter(Counter::Meminfo(name) | Counter::Vmstat(name), _) = &expr.kind
        else {
            return;
        };
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        if !is_plain && self.file.language == Language::Original {
            self.warn(
                "portable",
                expr.span,
                format!("The original daemon cannot read the name `{name}`"),
                "its names have letters and `_` only; write LANGUAGE=\"2\" if only pinheadd reads \
                 the file",
            );
        }
    }

    fn group(&mut self, name: Name, expr: &Expr) {
        let is_cpu_rule = matches!(name, Name::Hotplug | Name::Hotunplug);
        let ExprKind::Keyword(keyword) = expr.kind else { return };
        match (is_cpu_rule, keyword.is_memory()) {
            (true, true) => self.warn(
                "other-group",
                expr.span,
                format!("`{}` belongs to the memory rules", keyword.name()),
                "in a CPU rule, the original daemon uses the value of one interval ago, or 0 if \
                 memory management is off",
            ),
            (false, false) => self.warn(
                "other-group",
                expr.span,
                format!("`{}` belongs to the CPU rules", keyword.name()),
                "in a memory rule, the original daemon uses 0 if CPU management is off; \
                 cpustat. counters have the same value in both groups",
            ),
            _ => {}
        }
    }

    fn division(&mut self, expr: &Expr) {
        let ExprKind::Binary(BinaryOp::Divide, _, divisor) = &expr.kind else { return };
        if let ExprKind::Binary(BinaryOp::Subtract, new, old) = &divisor.kind
            && matches!(new.kind, ExprKind::Counter(Counter::Time, _))
            && matches!(old.kind, ExprKind::Counter(Counter::Time, _))
        {
            self.warn(
                "per-second",
                divisor.span,
                "A rate by the clock varies with the length of the interval and with steal",
                "divide by the difference of cpustat.total_ticks instead",
            );
        }
    }

    /// Warns of steal time that helps to make HOTPLUG true. The rule then counts steal time as load
    /// that another CPU could carry. A variable is followed once in each direction, which covers
    /// all its effects.
    fn steal(&mut self, expr: &Expr, direction: Direction, seen: &mut [[bool; 2]]) {
        match &expr.kind {
            ExprKind::Keyword(Keyword::Percent(CpuField::Steal))
            | ExprKind::Counter(Counter::Cpu(CpuField::Steal), 0)
                if direction == Direction::Up =>
            {
                self.warn(
                    "steal-as-active",
                    expr.span,
                    "Stolen time counts as load here",
                    "one more CPU increases steal: leave steal out of HOTPLUG, or count it as idle",
                );
            }
            ExprKind::Variable(index) => {
                let file = self.file;
                if let Some(value) = &file.variables[*index].expr
                    && !std::mem::replace(&mut seen[*index][direction as usize], true)
                {
                    self.steal(value, direction, seen);
                }
            }
            ExprKind::Negate(x) | ExprKind::Not(x) => self.steal(x, direction.turned(), seen),
            ExprKind::Binary(op, x, y) => {
                let (left, right) = match op {
                    BinaryOp::Subtract
                    | BinaryOp::Divide
                    | BinaryOp::Greater
                    | BinaryOp::GreaterEqual => (direction, direction.turned()),
                    BinaryOp::Less | BinaryOp::LessEqual => (direction.turned(), direction),
                    _ => (direction, direction),
                };
                self.steal(x, left, seen);
                self.steal(y, right, seen);
            }
            ExprKind::Call(_, x, _) => self.steal(x, direction, seen),
            _ => {}
        }
    }

    fn decided(&mut self, name: Name, expr: &Expr, at: Span) {
        let (code, message) = match Ranges::new(self.file).truth(expr) {
            Outcome::Never => ("never-true", format!("{} can never be true", name.name())),
            Outcome::Always => ("always-true", format!("{} is always true", name.name())),
            Outcome::Open => return,
        };
        let help = "compare with a value that the counters can reach; \"0\" switches a rule off";
        self.found.push(
            Diagnostic::warning(code, at.to(expr.span), message)
                .label("whatever the counters show")
                .help(help),
        );
    }

    /// Warns of a size that never causes a step, because a guard would express this more clearly.
    fn steps(&mut self) {
        let file = self.file;
        for (name, guard) in [(Name::ShrinkSize, "MAYSHRINK"), (Name::GrowSize, "MAYGROW")] {
            let Some(rule) = file.rule(name) else { continue };
            if Ranges::new(file).is_never_positive(&rule.expr) {
                let message = format!("{} is never more than 0: there is no step", name.name());
                let help = format!("write a size in MiB; to forbid the steps, write {guard}=\"0\"");
                self.warn("no-step", rule.name.to(rule.expr.span), message, &help);
            }
        }
    }

    fn memory(&mut self) {
        let file = self.file;
        let names = [Name::Memplug, Name::Memunplug, Name::CmmInc];
        let mut cached = None;
        let mut shmem = false;
        for rule in names.into_iter().filter_map(|name| file.rule(name)) {
            let mut seen = vec![false; file.variables.len()];
            self.walk(&rule.expr, &mut seen, &mut |_, part| {
                if let ExprKind::Counter(Counter::Meminfo(name), _) = &part.kind {
                    match &**name {
                        "Cached" => cached = cached.or(Some(part.span)),
                        "Shmem" => shmem = true,
                        _ => {}
                    }
                }
            });
        }
        if let Some(span) = cached.filter(|_| !shmem) {
            self.warn(
                "shared-in-cache",
                span,
                "Cached contains shared memory, which the kernel cannot drop",
                "subtract meminfo.Shmem, or the pool takes what databases need",
            );
        }
        let inc = file.rule(Name::CmmInc);
        if let Some(inc) = inc
            && matches!(inc.expr.kind, ExprKind::Number(n) if n > 0.0)
        {
            self.warn(
                "fixed-inc",
                inc.expr.span,
                "The pool grows in fixed steps, also when little is left",
                "make CMM_INC a share of what is free, such as meminfo.MemFree / 40",
            );
        }
        if let Some(inc) = inc
            && file.rule(Name::CmmDec).is_none()
            && !matches!(inc.expr.kind, ExprKind::Number(_))
        {
            self.warn(
                "no-dec",
                inc.name,
                "Without CMM_DEC the pool shrinks as slowly as it grows",
                "set CMM_DEC to a large fixed step, such as meminfo.MemTotal / 40",
            );
        }
    }
}
