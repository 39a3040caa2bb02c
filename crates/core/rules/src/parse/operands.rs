//! Operands other than numbers: variables, keywords, counters and functions.

use super::{HOST_ONLY, MAX_HISTORY, Parser, Visible};
use crate::ast::{Binding, Expr, ExprKind, Function, Keyword};
use crate::diag::{Diagnostic, Span};
use crate::file::{FileKind, Language};
use base::nearest;
use model::counters::{Counter, CpuField, PsiField, PsiLine, PsiResource};

impl Parser<'_> {
    pub(super) fn word(&mut self, more: fn(u8) -> bool) -> (usize, String) {
        let start = self.at;
        while self.peek().is_some_and(more) {
            self.at += 1;
        }
        (start, self.text.str(start, self.at).to_string())
    }

    pub(super) fn name(&mut self) -> Expr {
        let (start, word) = self.word(|b| b.is_ascii_alphanumeric() || b == b'_');
        let span = self.text.span(start, self.at);
        match (self.lookup)(&word) {
            Visible::Yes(index) => {
                return Expr { kind: ExprKind::Variable(index), span, parenthesised: false };
            }
            Visible::Later(_) if self.file.language == Language::Original => {
                let message = format!("Variable `{word}` is used before it is defined");
                let error = Diagnostic::error("used-before-defined", span, message)
                    .label("not known here yet")
                    .help("move the line that defines it above this one");
                return self.broken(error);
            }
            _ => {}
        }
        if let Some(host_name) = self.host_name {
            return host_name(self, &word, start);
        }
        let extended = self.file.language == Language::Extended;
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
        if self.file.language == Language::Original
            && (word == "psi" || Function::from_name(word).is_some())
        {
            return error.label("an addition to the original language").help(
                "write LANGUAGE=\"2\" as the first setting to use it; the original daemon \
                 cannot read such a file",
            );
        }
        if word == "host" && self.peek() == Some(b'.') {
            return error.help(HOST_ONLY);
        }
        let keywords = CpuField::ALL.iter().map(|f| f.name()).filter(|n| *n != "total_ticks");
        let others =
            ["loadavg", "runnable_proc", "onumcpus", "swaprate", "apcr", "freemem", "time"];
        let variables = self.file.variables.iter().map(|v| v.name.as_str());
        let known = variables.chain(keywords).chain(others);
        let near = nearest(word, known);
        let error = error.label("neither a variable of this file nor a keyword");
        let otherwise = match word {
            "total_ticks" => "write cpustat.total_ticks",
            _ => "counters are written meminfo.NAME, vmstat.NAME or cpustat.NAME",
        };
        error.help(meant(&near, otherwise))
    }

    fn counter(&mut self, family: &str, start: usize) -> Expr {
        self.at += 1;
        let (name_start, mut name) = self.word(|b| b.is_ascii_alphanumeric() || b == b'_');
        // The kernel has names such as `Active(anon)`, which the original's rules cannot contain.
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
                    let all = cpustat_names().collect::<Vec<_>>().join(" ");
                    let error = Diagnostic::error("unknown-counter", span, message);
                    return self.broken(error.help(meant(&near, &format!("it has {all}"))));
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

    pub(super) fn indexed(&mut self, counter: Counter, start: usize) -> Expr {
        let mut age = 0;
        if self.eat(b'[') {
            let open = self.at - 1;
            let digits = self.at;
            self.digits();
            let closed = self.at > digits && self.eat(b']');
            let span = self.text.span(open, self.at.min(self.text.len()));
            if !closed {
                let error = Diagnostic::error("syntax", span, "A history index is a number in [ ]")
                    .help(match self.file.kind {
                        FileKind::Guest => {
                            "write for example cpustat.user[1] for the value one interval ago"
                        }
                        FileKind::Host => {
                            "write for example guest.available[1] for the value one pass ago"
                        }
                    });
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

    pub(super) fn call(&mut self, function: Function, start: usize) -> Expr {
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
                .help(format!("write {name}({}, N), N from 1 to {MAX_HISTORY}", self.example()));
            return self.broken(error);
        };
        // All functions but `over` use past values of one counter; `over` shifts a whole condition.
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
                // Keywords in the condition themselves use one past interval.
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

/// Returns the names that a wrong name may have meant, or else another hint.
pub(crate) fn meant(near: &[&str], otherwise: &str) -> String {
    match near {
        [] => otherwise.to_owned(),
        _ => format!("did you mean {}?", quoted(near)),
    }
}

pub(crate) fn quoted(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    match &quoted[..] {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}
