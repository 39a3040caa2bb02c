//! From the text of one value to a tree.
//!
//! The grammar is that of the original daemon, including its surprises. A unary `-` or `!` takes
//! everything that binds tighter than the operator on its left. The parser never fails: an
//! unreadable part becomes a `Broken` leaf and a diagnostic.

mod host;
mod operands;

use crate::ast::{BinaryOp, Binding, Expr, ExprKind};
use crate::diag::{Diagnostic, LAST_QUOTE, Span};
use crate::file::{FileKind, Language, RuleFile, Text};

pub(crate) use operands::{meant, quoted};

/// Maximum number of past intervals that a rule may use.
pub const MAX_HISTORY: u8 = 100;
/// Maximum nesting of parentheses and signs. The parser and the type check recurse. The original
/// recurses without a bound, and crashes.
const MAX_DEPTH: usize = 100;
/// Maximum depth of a tree, including its variables, because later passes recurse over the tree. A
/// chain of operators is as deep as it is long. A line that the original accepts has room for about
/// a thousand operators.
pub(crate) const MAX_LEVELS: usize = 1100;

/// The help for a guest's rules file that uses a counter of the manager.
const HOST_ONLY: &str =
    "guest. and host. counters are for a host's rules file, which sets SHRINKGUEST or GROWGUEST";

/// Formats a character so that it can be found in the file. Characters that look like others, or
/// are invisible, are shown by their number.
fn shown(found: char) -> String {
    match found {
        char::REPLACEMENT_CHARACTER => "a byte that is no text".into(),
        _ if found.is_ascii_graphic() => format!("`{found}`"),
        _ => format!("U+{:04X}", u32::from(found)),
    }
}

/// Returns advice for a character that an editor substituted, or that came from a comment.
fn typed_help(found: char) -> Option<&'static str> {
    Some(match found {
        '"' => LAST_QUOTE,
        '\u{2010}'..='\u{2015}' | '\u{2212}' => "this is a dash: a minus is `-`",
        '\u{a0}' | '\u{2000}'..='\u{200b}' | '\u{202f}' | '\u{3000}' | '\u{feff}' => {
            "this only looks like a blank: remove it, or type a blank"
        }
        '\u{2018}'..='\u{201f}' => "values stand between straight double quotes",
        _ => return None,
    })
}

/// Function that finds a user variable by its name, and its visibility at the text's position.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Visible;

/// The visibility of a name where it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visible {
    /// No variable has that name.
    No,
    /// The variable with that index.
    Yes(usize),
    /// The variable is defined, but only further down.
    Later(Span),
}

/// Function that parses a name of host rules. The function is an argument, so that the guest's
/// daemon, which reads only guests' files, is linked without the function.
pub(crate) type HostName = fn(&mut Parser<'_>, &str, usize) -> Expr;

pub(crate) struct Parser<'a> {
    text: &'a Text,
    at: usize,
    depth: usize,
    operators: usize,
    file: &'a RuleFile,
    lookup: Lookup<'a>,
    /// The parser of names, in a host's file.
    host_name: Option<HostName>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The largest history index seen.
    pub(crate) history: u8,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(
        text: &'a Text,
        file: &'a RuleFile,
        lookup: Lookup<'a>,
        host_name: Option<HostName>,
    ) -> Parser<'a> {
        Parser {
            text,
            at: 0,
            depth: 0,
            operators: 0,
            file,
            lookup,
            host_name,
            diagnostics: Vec::new(),
            history: 0,
        }
    }

    /// Parses the whole text as one expression.
    pub(crate) fn whole(&mut self) -> Expr {
        let expr = self.expression(Binding::None);
        if self.at < self.text.len() && self.diagnostics.is_empty() {
            let (found, span) = self.text.character(self.at);
            let message = format!("{} cannot follow a complete expression", shown(found));
            let mut error = Diagnostic::error("syntax", span, message)
                .label("expected an operator or the end of the expression");
            error.help = self.operator_help(found);
            self.diagnostics.push(error);
        }
        expr
    }

    fn operator_help(&self, found: char) -> Option<String> {
        let help = match found {
            ',' if self.at > 0
                && self.text.byte(self.at - 1).is_ascii_digit()
                && self.digit_at(self.at + 1) =>
            {
                "a fraction begins with a point: 0.75"
            }
            '%' => "remove the `%`: a percentage is written as a plain number",
            '=' | '!' if self.file.language == Language::Original => {
                "`<=`, `>=`, `==` and `!=` need LANGUAGE=\"2\" as the first setting of the file"
            }
            ')' => "remove the `)`, or add the missing `(`",
            '[' if self.file.kind == FileKind::Host => {
                "only guest. and host. counters have a history"
            }
            '.' if self.file.kind == FileKind::Host => {
                "counters are written guest.NAME or host.NAME"
            }
            '.' if self.text.str(0, self.at).ends_with("guest") => HOST_ONLY,
            '[' => "only cpustat., meminfo., vmstat. names and time have a history",
            '.' => "counters are written meminfo.NAME, vmstat.NAME or cpustat.NAME",
            _ => typed_help(found)?,
        };
        Some(help.into())
    }

    /// Returns a counter as an example for messages.
    fn example(&self) -> &'static str {
        match self.file.kind {
            FileKind::Guest => "vmstat.pgpgin",
            FileKind::Host => "guest.available",
        }
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
        // Only one syntax error is reported for each expression, because further errors would be
        // guesses.
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
        let start = self.at;
        let mut expr = self.operand(left);
        while let Some((op, length)) = self.operator() {
            if left >= op.binding() {
                break;
            }
            self.operators += 1;
            if self.operators > MAX_LEVELS {
                let span = self.text.span(self.at, self.at + length);
                let message = format!("The expression has more than {MAX_LEVELS} operators");
                return self.broken(Diagnostic::error("too-deep", span, message));
            }
            self.at += length;
            let right = self.expression(op.binding());
            // This span includes the parentheses around both operands. The spans of the operands
            // exclude them.
            let span = self.text.span(start, self.at);
            let kind = ExprKind::Binary(op, Box::new(expr), Box::new(right));
            expr = Expr { kind, span, parenthesised: false };
        }
        self.depth -= 1;
        expr
    }

    fn operator(&self) -> Option<(BinaryOp, usize)> {
        let next = (self.at + 1 < self.text.len()).then(|| self.text.byte(self.at + 1));
        if self.file.language == Language::Extended && next == Some(b'=') {
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
                let span = self.text.span(start, self.at);
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
                let (found, span) = self.text.character(start);
                let shown = shown(found);
                let message = format!("An operand is expected, not {shown}");
                let mut error = Diagnostic::error("syntax", span, message)
                    .label("expected a number, a name, `(`, `-` or `!`");
                error.help = match b {
                    b'=' => self.operator_help('='),
                    b'&' | b'|' => Some(format!("the operator is a single {shown}")),
                    _ => typed_help(found).map(Into::into),
                };
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

    /// Parses digits, an optional fraction, an optional exponent; a sign may stand at `start`.
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
}
