//! From the text of one value to a tree.
//!
//! The grammar is the original daemon's, and so are its surprises: a unary `-` or
//! `!` takes all that binds tighter than the operator on its left. The parser
//! never fails: what it cannot read becomes a `Broken` leaf and a diagnostic.

use crate::ast::{BinaryOp, Binding, Expr, ExprKind, Function, Keyword};
use crate::diag::{Diagnostic, Span};
use crate::file::{Language, Text};
use crate::names::nearest;
use counters::{Counter, CpuField, PsiField, PsiLine, PsiResource};

/// The most intervals that a rule may look back.
pub const MAX_HISTORY: u8 = 100;
/// The deepest nesting of parentheses and signs. The parser and the type check
/// recurse; the original recurses without a bound and dies of it.
const MAX_DEPTH: usize = 100;

/// Finds the user variable of a name, as it is visible where the text stands.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Visible;

/// What a name is where it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visible {
    /// No variable has that name.
    No,
    /// The variable of that number.
    Yes(usize),
    /// The variable is defined, but only further down.
    Later(Span),
}

pub(crate) struct Parser<'a> {
    text: &'a Text,
    at: usize,
    depth: usize,
    language: Language,
    lookup: Lookup<'a>,
    variables: &'a [&'a str],
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The largest history index seen.
    pub(crate) history: u8,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(
        text: &'a Text,
        language: Language,
        lookup: Lookup<'a>,
        variables: &'a [&'a str],
    ) -> Parser<'a> {
        Parser {
            text,
            at: 0,
            depth: 0,
            language,
            lookup,
            variables,
            diagnostics: Vec::new(),
            history: 0,
        }
    }

    /// The whole text as one expression.
    pub(crate) fn whole(&mut self) -> Expr {
        let expr = self.expression(Binding::None);
        if self.at < self.text.len() && self.diagnostics.is_empty() {
            let span = self.text.span(self.at, self.at + 1);
            let found = char::from(self.text.byte(self.at));
            let mut error = Diagnostic::error(
                "syntax",
                span,
                format!("`{found}` cannot follow a complete expression"),
            )
            .label("expected an operator or the end of the expression");
            error.help = self.operator_help(found);
            self.diagnostics.push(error);
        }
        expr
    }

    fn operator_help(&self, found: char) -> Option<String> {
        let help = match found {
            '=' | '!' if self.language == Language::Original => {
                "`<=`, `>=`, `==` and `!=` need LANGUAGE=\"2\" as the first setting of the file"
            }
            ')' => "remove it, or add the `(` that it should close",
            '[' => "only cpustat., meminfo., vmstat. names and time have a history",
            '.' => "counters are written meminfo.NAME, vmstat.NAME or cpustat.NAME",
            _ => return None,
        };
        Some(help.into())
    }

    fn peek(&self) -> Option<u8> {
        (self.at < self.text.len()).then(|| self.text.byte(self.at))
    }

    fn eat(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn broken(&mut self, error: Diagnostic) -> Expr {
        let span = error.span;
        // One syntax error an expression: what follows it would be guesses.
        if self.diagnostics.is_empty() {
            self.diagnostics.push(error);
        }
        self.at = self.text.len();
        Expr { kind: ExprKind::Broken, span, parenthesised: false }
    }

    fn expression(&mut self, left: Binding) -> Expr {
        if self.depth == MAX_DEPTH {
            let span = self.text.span(self.at, self.at + 1);
            let message = format!("The expression is nested deeper than {MAX_DEPTH} levels");
            return self.broken(Diagnostic::error("too-deep", span, message));
        }
        self.depth += 1;
        let mut expr = self.operand(left);
        while let Some((op, length)) = self.operator() {
            if left >= op.binding() {
                break;
            }
            self.at += length;
            let right = self.expression(op.binding());
            let span = expr.span.to(right.span);
            let kind = ExprKind::Binary(op, Box::new(expr), Box::new(right));
            expr = Expr { kind, span, parenthesised: false };
        }
        self.depth -= 1;
        expr
    }

    fn operator(&self) -> Option<(BinaryOp, usize)> {
        let next = (self.at + 1 < self.text.len()).then(|| self.text.byte(self.at + 1));
        if self.language == Language::Extended && next == Some(b'=') {
            match self.peek()? {
                b'<' => return Some((BinaryOp::LessEqual, 2)),
                b'>' => return Some((BinaryOp::GreaterEqual, 2)),
                b'=' => return Some((BinaryOp::Equal, 2)),
                b'!' => return Some((BinaryOp::NotEqual, 2)),
                _ => {}
            }
        }
        let op = match self.peek()? {
            b'|' => BinaryOp::Or,
            b'&' => BinaryOp::And,
            b'<' => BinaryOp::Less,
            b'>' => BinaryOp::Greater,
            b'+' => BinaryOp::Add,
            b'-' => BinaryOp::Subtract,
            b'*' => BinaryOp::Multiply,
            b'/' => BinaryOp::Divide,
            _ => return None,
        };
        Some((op, 1))
    }

    fn operand(&mut self, left: Binding) -> Expr {
        let start = self.at;
        match self.peek() {
            Some(b'-') if self.digit_at(self.at + 1) => {
                self.at += 1;
                self.number(start)
            }
            Some(sign @ (b'-' | b'!')) => {
                self.at += 1;
                let operand = Box::new(self.expression(left));
                let span = self.text.span(start, start + 1).to(operand.span);
                let kind = match sign {
                    b'-' => ExprKind::Negate(operand),
                    _ => ExprKind::Not(operand),
                };
                Expr { kind, span, parenthesised: false }
            }
            Some(b'0'..=b'9') => self.number(start),
            Some(b'(') => {
                self.at += 1;
                let mut expr = self.expression(Binding::None);
                if !self.eat(b')') {
                    let span = self.text.span(start, start + 1);
                    let error =
                        Diagnostic::error("syntax", span, "This parenthesis is never closed")
                            .label("opened here")
                            .help("add the missing `)`");
                    return self.broken(error);
                }
                expr.parenthesised = true;
                expr
            }
            Some(b) if b.is_ascii_alphabetic() || b == b'_' => self.name(),
            Some(b) => {
                let span = self.text.span(start, start + 1);
                let shown = char::from(b).escape_default();
                let message = format!("An operand is expected, not `{shown}`");
                let error = Diagnostic::error("syntax", span, message)
                    .label("expected a number, a name, `(`, `-` or `!`");
                self.broken(error)
            }
            None => {
                let span = self.text.end();
                let error = Diagnostic::error("syntax", span, "The expression ends too early")
                    .label("expected a number, a name, `(`, `-` or `!`");
                self.broken(error)
            }
        }
    }

    fn digit_at(&self, at: usize) -> bool {
        at < self.text.len() && self.text.byte(at).is_ascii_digit()
    }

    fn digits(&mut self) {
        while self.digit_at(self.at) {
            self.at += 1;
        }
    }

    /// Digits, an optional fraction, an optional exponent; a sign may stand at `start`.
    fn number(&mut self, start: usize) -> Expr {
        self.digits();
        if self.eat(b'.') {
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            let signed =
                self.at + 1 < self.text.len() && matches!(self.text.byte(self.at + 1), b'+' | b'-');
            if self.digit_at(self.at + 1 + usize::from(signed)) {
                self.at += 1 + usize::from(signed);
                self.digits();
            }
        }
        let span = self.text.span(start, self.at);
        match self.text.str(start, self.at).parse::<f64>() {
            Ok(value) if value.is_finite() => {
                Expr { kind: ExprKind::Number(value), span, parenthesised: false }
            }
            _ => {
                let error = Diagnostic::error("number", span, "The number is too large")
                    .help("numbers reach up to about 1.8e308");
                self.broken(error)
            }
        }
    }

    fn word(&mut self, more: fn(u8) -> bool) -> (usize, String) {
        let start = self.at;
        while self.peek().is_some_and(more) {
            self.at += 1;
        }
        (start, self.text.str(start, self.at).to_string())
    }

    fn name(&mut self) -> Expr {
        let (start, word) = self.word(|b| b.is_ascii_alphanumeric() || b == b'_');
        let span = self.text.span(start, self.at);
        match (self.lookup)(&word) {
            Visible::Yes(index) => {
                return Expr { kind: ExprKind::Variable(index), span, parenthesised: false };
            }
            Visible::Later(_) if self.language == Language::Original => {
                let message = format!("Variable `{word}` is used before it is defined");
                let error = Diagnostic::error("used-before-defined", span, message)
                    .label("not known here yet")
                    .help("move the line that defines it above this one");
                return self.broken(error);
            }
            _ => {}
        }
        let extended = self.language == Language::Extended;
        let counter = match (word.as_str(), self.peek()) {
            ("time", _) => Some(Counter::Time),
            ("meminfo" | "vmstat" | "cpustat", Some(b'.')) => return self.counter(&word, start),
            ("psi", Some(b'.')) if extended => return self.psi(start),
            _ => None,
        };
        if let Some(counter) = counter {
            return self.indexed(counter, start);
        }
        if let (true, Some(b'('), Some(function)) =
            (extended, self.peek(), Function::from_name(&word))
        {
            return self.call(function, start);
        }
        if let Some(keyword) = Keyword::from_name(&word) {
            return Expr { kind: ExprKind::Keyword(keyword), span, parenthesised: false };
        }
        let error = self.unknown(&word, span);
        self.broken(error)
    }

    fn unknown(&self, word: &str, span: Span) -> Diagnostic {
        let error = Diagnostic::error("unknown-name", span, format!("Nothing is named `{word}`"));
        if self.language == Language::Original
            && (word == "psi" || Function::from_name(word).is_some())
        {
            return error.label("an addition to the original language").help(
                "write LANGUAGE=\"2\" as the first setting to use it; the original daemon \
                 cannot read such a file",
            );
        }
        let keywords = CpuField::ALL.iter().map(|f| f.name()).filter(|n| *n != "total_ticks");
        let others =
            ["loadavg", "runnable_proc", "onumcpus", "swaprate", "apcr", "freemem", "time"];
        let known = self.variables.iter().copied().chain(keywords).chain(others);
        let near = nearest(word, known);
        let error = error.label("neither a variable of this file nor a keyword");
        match near[..] {
            [] if word == "total_ticks" => error.help("it is cpustat.total_ticks"),
            [] => error.help("counters are written meminfo.NAME, vmstat.NAME or cpustat.NAME"),
            _ => error.help(format!("did you mean {}?", quoted(&near))),
        }
    }

    fn counter(&mut self, family: &str, start: usize) -> Expr {
        self.at += 1;
        let (name_start, mut name) = self.word(|b| b.is_ascii_alphanumeric() || b == b'_');
        // The kernel prints `Active(anon)`; the original cannot name it.
        if family == "meminfo" && self.peek() == Some(b'(') && !name.is_empty() {
            let open = self.at;
            self.at += 1;
            let (_, inner) = self.word(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !inner.is_empty() && self.eat(b')') {
                name = format!("{name}({inner})");
            } else {
                self.at = open;
            }
        }
        let span = self.text.span(start, self.at.max(name_start));
        if name.is_empty() {
            let message = format!("`{family}.` needs the name of a counter");
            let error = Diagnostic::error("syntax", span, message)
                .help("for example meminfo.MemFree, vmstat.pgpgin or cpustat.idle");
            return self.broken(error);
        }
        let counter = match family {
            "meminfo" => Counter::meminfo(&name),
            "vmstat" => Counter::vmstat(&name),
            _ => match cpustat(&name) {
                Some(counter) => counter,
                None => {
                    let near = nearest(&name, cpustat_names());
                    let message = format!("cpustat has no `{name}`");
                    let mut error = Diagnostic::error("unknown-counter", span, message);
                    let all = cpustat_names().collect::<Vec<_>>().join(" ");
                    error.help = Some(match near[..] {
                        [] => format!("it has {all}"),
                        _ => format!("did you mean {}?", quoted(&near)),
                    });
                    return self.broken(error);
                }
            },
        };
        self.indexed(counter, start)
    }

    fn psi(&mut self, start: usize) -> Expr {
        let (_, path) = self.word(|b| b.is_ascii_alphanumeric() || b == b'.');
        let parts: Vec<&str> = path.split('.').skip(1).collect();
        let counter = match parts[..] {
            [resource, line, field] => PsiResource::from_name(resource)
                .zip(PsiLine::from_name(line))
                .zip(PsiField::from_name(field))
                .map(|((r, l), f)| Counter::Psi(r, l, f)),
            _ => None,
        };
        match counter {
            Some(counter) => self.indexed(counter, start),
            None => {
                let span = self.text.span(start, self.at);
                let error = Diagnostic::error("unknown-counter", span, "No such pressure counter")
                    .help("psi.(cpu|memory|io).(some|full).(avg10|avg60|avg300|total)");
                self.broken(error)
            }
        }
    }

    fn indexed(&mut self, counter: Counter, start: usize) -> Expr {
        let mut age = 0;
        if self.eat(b'[') {
            let open = self.at - 1;
            let digits = self.at;
            self.digits();
            let closed = self.at > digits && self.eat(b']');
            let span = self.text.span(open, self.at.min(self.text.len()));
            if !closed {
                let error = Diagnostic::error("syntax", span, "A history index is a number in [ ]")
                    .help("write for example cpustat.user[1] for the value one interval ago");
                return self.broken(error);
            }
            let index = self.text.str(digits, self.at - 1).parse().unwrap_or(u8::MAX);
            if index > MAX_HISTORY {
                let message = format!("The history reaches back {MAX_HISTORY} intervals at most");
                return self.broken(Diagnostic::error("history", span, message));
            }
            age = index;
        }
        self.history = self.history.max(age);
        let span = self.text.span(start, self.at);
        Expr { kind: ExprKind::Counter(counter, age), span, parenthesised: false }
    }

    fn call(&mut self, function: Function, start: usize) -> Expr {
        self.at += 1;
        let before = std::mem::take(&mut self.history);
        let operand = self.expression(Binding::None);
        let own = std::mem::replace(&mut self.history, before);
        let comma = self.eat(b',');
        let digits = self.at;
        self.digits();
        let intervals: Option<u8> = self.text.str(digits, self.at).parse().ok();
        let closed = comma && self.at > digits && self.eat(b')');
        let span = self.text.span(start, self.at.min(self.text.len()));
        let name = function.name();
        let fits = intervals.filter(|n| (1..=MAX_HISTORY).contains(n));
        let (true, Some(intervals)) = (closed, fits) else {
            let message = format!("`{name}` needs an operand and a number of intervals");
            let error = Diagnostic::error("syntax", span, message)
                .help(format!("write {name}(vmstat.pgpgin, 5); 1 to {MAX_HISTORY} intervals"));
            return self.broken(error);
        };
        // All but `over` look back from one counter; `over` shifts a whole condition.
        if function != Function::Over && !matches!(operand.kind, ExprKind::Counter(..)) {
            let message = format!("`{name}` works on a counter, not on an expression");
            let error = Diagnostic::error("type", operand.span, message)
                .label("not a counter")
                .help("only over(CONDITION, n) takes an expression");
            return self.broken(error);
        }
        let last = u32::from(intervals) - 1;
        let reach = last
            + match function {
                Function::Min | Function::Max | Function::Avg => u32::from(own),
                Function::Delta | Function::Rate => u32::from(own) + 1,
                // Keywords in the condition look back one interval themselves.
                Function::Over => u32::from(own.max(1)),
            };
        if reach > u32::from(MAX_HISTORY) {
            let message = format!("The history reaches back {MAX_HISTORY} intervals at most");
            return self.broken(Diagnostic::error("history", span, message));
        }
        self.history = before.max(reach as u8);
        let kind = ExprKind::Call(function, Box::new(operand), intervals);
        Expr { kind, span, parenthesised: false }
    }
}

fn cpustat(name: &str) -> Option<Counter> {
    match name {
        "onumcpus" => Some(Counter::OnlineCpus),
        "loadavg" => Some(Counter::LoadAvg),
        "runnable_proc" => Some(Counter::RunnableProc),
        _ => CpuField::from_name(name).map(Counter::Cpu),
    }
}

fn cpustat_names() -> impl Iterator<Item = &'static str> {
    ["onumcpus", "loadavg", "runnable_proc"]
        .into_iter()
        .chain(CpuField::ALL.iter().map(|f| f.name()))
}

pub(crate) fn quoted(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    match &quoted[..] {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}
