//! From the text of a rules file to its settings, variables and rules.
//!
//! The layout of the file is the original daemon's: one `name="value"` a line, all
//! white space dropped, the value between the first and the last quote. Reading
//! never fails; what is wrong is in the diagnostics, and what is usable beside it
//! is still there, so that one run tells of several mistakes.

use crate::ast::{Expr, ExprKind};
use crate::diag::{Diagnostic, Span};
use crate::names::nearest;
use crate::parse::{Parser, Visible, quoted};

/// The longest line, as in the original.
pub const MAX_LINE: usize = 2048;
/// The longest name of a user variable, as in the original.
pub const MAX_NAME: usize = 128;
/// The room for all names and values of user variables, as in the original, which
/// keeps them in one buffer with two bytes beside each pair and two for itself.
pub const MAX_VARIABLES: usize = 4096;
/// How deep variables may use variables: what comes later recurses over them.
const MAX_CHAIN: usize = 100;
/// A larger file is no rules file. The original has no such bound, but reads it
/// whole into the same buffers.
pub const MAX_FILE: usize = 1 << 20;

/// Which language a file is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// The original daemon's.
    Original,
    /// With pinhead's additions; the file says LANGUAGE="2" first.
    Extended,
}

/// A text without its white space, that knows where each byte came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text {
    bytes: Vec<u8>,
    at: Vec<u32>,
    end: u32,
}

impl Text {
    fn push(&mut self, byte: u8, at: usize) {
        self.bytes.push(byte);
        self.at.push(at as u32);
        self.end = at as u32 + 1;
    }

    fn cut(&self, start: usize, end: usize) -> Text {
        let (bytes, at) = (self.bytes[start..end].to_vec(), self.at[start..end].to_vec());
        let after = self.at.get(end).copied().unwrap_or(self.end);
        let end = at.last().map_or(after, |last| last + 1);
        Text { bytes, at, end }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn byte(&self, at: usize) -> u8 {
        self.bytes[at]
    }

    /// The bytes from `start` up to `end`; empty where they are not ASCII.
    pub(crate) fn str(&self, start: usize, end: usize) -> &str {
        std::str::from_utf8(&self.bytes[start..end]).unwrap_or("")
    }

    pub(crate) fn span(&self, start: usize, end: usize) -> Span {
        match self.at.get(start) {
            None => self.end(),
            Some(&first) => {
                let last = self.at[end.clamp(start + 1, self.len()) - 1];
                Span { start: first, end: last + 1 }
            }
        }
    }

    /// The place just behind the text.
    pub(crate) fn end(&self) -> Span {
        Span { start: self.end, end: self.end + 1 }
    }

    fn all(&self) -> Span {
        self.span(0, self.len())
    }
}

/// A whole number that a file sets, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The number.
    pub value: u64,
    /// Where the number stands.
    pub span: Span,
}

/// A rule, or the size of a step, and where its name stands.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleText {
    /// The expression.
    pub expr: Expr,
    /// Where the name stands.
    pub name: Span,
}

/// A variable of the user's.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Where its name stands.
    pub span: Span,
    /// What it stands for; `None` as long as no rule uses it, and never parsed then.
    pub expr: Option<Expr>,
    text: Text,
}

macro_rules! predefined {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// The names that the language itself knows on the left of `=`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum Name { $($variant),+ }

        impl Name {
            /// All of them.
            pub const ALL: &'static [Name] = &[$(Name::$variant),+];

            /// As it is written by convention.
            pub fn name(self) -> &'static str {
                match self { $(Name::$variant => $name),+ }
            }
        }
    };
}

predefined! {
    Hotplug = "HOTPLUG", Hotunplug = "HOTUNPLUG", Memplug = "MEMPLUG", Memunplug = "MEMUNPLUG",
    CmmInc = "CMM_INC", CmmDec = "CMM_DEC", Update = "UPDATE", CpuMin = "CPU_MIN",
    CpuMax = "CPU_MAX", CmmMin = "CMM_MIN", CmmMax = "CMM_MAX",
}

impl Name {
    /// How many of them are expressions; they come first.
    pub const EXPRESSIONS: usize = 6;

    fn is_expression(self) -> bool {
        (self as usize) < Name::EXPRESSIONS
    }

    fn from_text(text: &str) -> Option<Name> {
        Name::ALL.iter().copied().find(|n| n.name().eq_ignore_ascii_case(text))
    }
}

/// What a rules file says.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleFile {
    /// The language it is in.
    pub language: Language,
    /// The user's variables, in the file's order.
    pub variables: Vec<Variable>,
    /// The largest history index of all that was parsed.
    pub history: u8,
    settings: [Option<Setting>; Name::ALL.len()],
    rules: [Option<RuleText>; Name::EXPRESSIONS],
}

impl RuleFile {
    /// The number that a setting has.
    pub fn setting(&self, name: Name) -> Option<Setting> {
        self.settings[name as usize]
    }

    /// The expression that a rule has.
    pub fn rule(&self, name: Name) -> Option<&RuleText> {
        self.rules.get(name as usize)?.as_ref()
    }

    /// All rules that are set, in a fixed order.
    pub fn rules(&self) -> impl Iterator<Item = (Name, &RuleText)> {
        Name::ALL.iter().filter_map(|name| Some((*name, self.rule(*name)?)))
    }
}

/// Reads a rules file. Always returns what could be read; the file is usable only
/// if no diagnostic is an error.
pub fn parse(text: &[u8]) -> (RuleFile, Vec<Diagnostic>) {
    let mut reader = FileReader {
        file: RuleFile {
            language: Language::Original,
            variables: Vec::new(),
            history: 1,
            settings: [None; Name::ALL.len()],
            rules: [const { None }; Name::EXPRESSIONS],
        },
        pending: Vec::new(),
        room: 2,
        first: true,
        diagnostics: Vec::new(),
    };
    if text.len() > MAX_FILE {
        let message = format!("The file is larger than {MAX_FILE} bytes: it is no rules file");
        reader.diagnostics.push(Diagnostic::error("too-large", Span::new(0, 1), message));
        return (reader.file, reader.diagnostics);
    }
    let mut at = 0;
    while at < text.len() {
        at = reader.line(text, at);
    }
    reader.expressions();
    reader.diagnostics.sort_by_key(|d| (d.span.start, d.span.end));
    reader.diagnostics.dedup();
    (reader.file, reader.diagnostics)
}

/// A rule whose expression waits until all variables are known.
struct Pending {
    name: Name,
    span: Span,
    value: Text,
    /// How many variables stand above it.
    variables: usize,
}

struct FileReader {
    file: RuleFile,
    pending: Vec<Pending>,
    /// Bytes used in the original's buffer for variables.
    room: usize,
    first: bool,
    diagnostics: Vec<Diagnostic>,
}

impl FileReader {
    fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>, help: &str) {
        let mut error = Diagnostic::error(code, span, message);
        if !help.is_empty() {
            error.help = Some(help.into());
        }
        self.diagnostics.push(error);
    }

    /// Reads the line at `at`, with those that continue it; returns where the next starts.
    fn line(&mut self, text: &[u8], mut at: usize) -> usize {
        let mut line = Text { end: at as u32, ..Text::default() };
        let comment = text[at] == b'#';
        let extended = self.file.language == Language::Extended;
        let mut in_quotes = false;
        loop {
            let end = text[at..].iter().position(|&b| b == b'\n').map_or(text.len(), |n| at + n);
            if end - at > MAX_LINE {
                let message = format!("The line has more than {MAX_LINE} characters");
                let help = "put parts of a long rule into variables of their own";
                self.error("line-too-long", Span::new(at + MAX_LINE, end), message, help);
                return end + 1;
            }
            let whole = &text[at..end];
            let trimmed = whole.trim_ascii_end();
            let continued = extended && !comment && trimmed.ends_with(b"\\");
            let content = if continued { &trimmed[..trimmed.len() - 1] } else { whole };
            for (offset, &byte) in content.iter().enumerate() {
                in_quotes ^= byte == b'"';
                if extended && byte == b'#' && !in_quotes {
                    break;
                }
                // The white space of C: a vertical tab is one too.
                if !byte.is_ascii_whitespace() && byte != 0x0b {
                    line.push(byte, at + offset);
                }
            }
            at = end + 1;
            if !continued || at >= text.len() {
                break;
            }
        }
        if !comment {
            self.assignment(&line);
        }
        at
    }

    fn assignment(&mut self, line: &Text) {
        let Some(equals) = line.bytes.iter().position(|&b| b == b'=') else {
            if line.len() > 0 && line.byte(0) != b'#' {
                let warning = Diagnostic::warning(
                    "ignored-line",
                    line.all(),
                    "A line without `=` is ignored",
                )
                .help("a comment starts with `#` in the first column");
                self.diagnostics.push(warning);
            }
            return;
        };
        let name_span = line.span(0, equals.max(1));
        let name = line.str(0, equals).to_string();
        let quote = |b: &u8| *b == b'"';
        let open = line.bytes[equals..].iter().position(quote).map(|n| equals + n);
        let close = line.bytes.iter().rposition(quote);
        let (Some(open), Some(close)) = (open, close) else {
            return self.unquoted(line, equals, &name);
        };
        if close <= open {
            let span = line.span(open, open + 1);
            self.error("quotes", span, "The value has no closing quote", "end the value with `\"`");
            return;
        }
        if open > equals + 1 {
            let span = line.span(equals + 1, open);
            let message = "What stands between `=` and the first quote is ignored";
            self.diagnostics.push(Diagnostic::warning("ignored-text", span, message));
        }
        let value = line.cut(open + 1, close);
        let first = std::mem::replace(&mut self.first, false);
        if name == "LANGUAGE" && self.language(first, name_span, &value) {
            return;
        }
        match Name::from_text(&name) {
            Some(name) if name.is_expression() => self.rule(name, name_span, value),
            Some(name) => self.number(name, name_span, &value),
            None => self.variable(name, name_span, value),
        }
    }

    fn unquoted(&mut self, line: &Text, equals: usize, name: &str) {
        let span = line.span(equals, line.len());
        let message = format!("The value of `{name}` has no quotes");
        let value: String = line.bytes[equals + 1..].iter().map(|&b| char::from(b)).collect();
        let help = match line.byte(0) {
            b'#' => "a comment starts with `#` in the first column; this `#` does not".into(),
            _ => format!("write {name}=\"{}\"", value.trim_matches('"').escape_default()),
        };
        self.error("quotes", span, message, &help);
    }

    /// Whether it chose the language. Anywhere but first it is what it always was in
    /// the original: a variable like any other.
    fn language(&mut self, first: bool, name: Span, value: &Text) -> bool {
        match (first, value.bytes.as_slice()) {
            (true, b"2") => self.file.language = Language::Extended,
            (true, b"1") => {}
            (true, digits) if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
                let help = "1 is the original's language, 2 has pinhead's additions";
                self.error("language", value.all(), "There is no such LANGUAGE", help);
            }
            (true, _) => return false,
            (false, _) => {
                let message = "LANGUAGE is not the first setting, so it chooses nothing";
                let warning = Diagnostic::warning("language", name, message)
                    .label("read as a variable")
                    .help("move it above all other settings");
                self.diagnostics.push(warning);
                return false;
            }
        }
        true
    }

    fn rule(&mut self, name: Name, span: Span, value: Text) {
        if value.len() == 0 {
            let message = format!("{} is empty: it counts as not set", name.name());
            self.diagnostics.push(
                Diagnostic::warning("empty-rule", span, message)
                    .help("\"0\" is the rule that is never true"),
            );
            // The last one counts, also where it is empty.
            self.pending.push(Pending { name, span, value, variables: 0 });
            return;
        }
        let variables = self.file.variables.len();
        self.pending.push(Pending { name, span, value, variables });
    }

    fn number(&mut self, name: Name, span: Span, value: &Text) {
        let at = if value.len() == 0 { span } else { value.all() };
        let digits = value.len() > 0 && value.bytes.iter().all(u8::is_ascii_digit);
        let parsed: Option<u64> = value.str(0, value.len()).parse().ok().filter(|_| digits);
        let label = name.name();
        // Larger numbers do not fit the kernel's own type for them.
        let value = match parsed {
            Some(value) if value <= i64::MAX as u64 => value,
            Some(_) => return self.error("number", at, format!("{label} is too large"), ""),
            None => {
                let message = format!("{label} is a whole number, in digits only");
                let help = match name {
                    Name::Update => "for example UPDATE=\"1\", in seconds",
                    Name::CmmMin | Name::CmmMax => "a number of pages of 4 KiB",
                    _ => "a number of CPUs",
                };
                return self.error("number", at, message, help);
            }
        };
        if value == 0 && matches!(name, Name::Update | Name::CpuMin) {
            let help = match name {
                Name::Update => "the interval is at least 1 second",
                _ => "at least one CPU stays online",
            };
            return self.error("number", at, format!("{label} must be greater than 0"), help);
        }
        self.file.settings[name as usize] = Some(Setting { value, span: at });
    }

    fn variable(&mut self, name: String, span: Span, text: Text) {
        let known = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
        if name.starts_with('#') {
            let message = "This is no comment: the `#` does not stand in the first column";
            let warning = Diagnostic::warning("indented-comment", span, message)
                .label("read as the name of a variable")
                .help("move the `#` to the start of the line");
            self.diagnostics.push(warning);
            return;
        }
        if name.is_empty() || !name.chars().all(|c| known(&c)) {
            let help = "names are made of letters, digits and `_`";
            return self.error("name", span, "This is not a name that a variable can have", help);
        }
        if name.len() > MAX_NAME {
            let message = format!("The name is longer than {MAX_NAME} characters");
            return self.error("name", span, message, "");
        }
        if is_keyword(&name) {
            let message = format!("`{name}` is a keyword and cannot be a variable");
            return self.error("name", span, message, "choose another name");
        }
        if self.file.variables.iter().any(|v| v.name == name) {
            let message = format!("Variable `{name}` is defined twice");
            return self.error("defined-twice", span, message, "remove or rename one of the two");
        }
        self.room += name.len() + text.len() + 2;
        if self.room > MAX_VARIABLES {
            let message = format!(
                "The variables need {} bytes, {MAX_VARIABLES} is all there is for names and values",
                self.room
            );
            return self.error("too-many-variables", span, message, "shorten names or values");
        }
        self.lookalike(&name, span);
        self.file.variables.push(Variable { name, span, expr: None, text });
    }

    /// The original compares only as many letters as its own names have.
    fn lookalike(&mut self, name: &str, span: Span) {
        let upper = name.to_ascii_uppercase();
        if let Some(own) = Name::ALL.iter().find(|n| upper.starts_with(n.name())) {
            let message = format!("The original daemon takes `{name}` for {}", own.name());
            let help = "choose a name that does not begin with a predefined one";
            self.diagnostics.push(Diagnostic::warning("name", span, message).help(help));
            return;
        }
        let near = nearest(&upper, Name::ALL.iter().map(|n| n.name()));
        if name == upper && !near.is_empty() {
            let message = format!("`{name}` is a variable of your own, not a setting");
            let help = format!("did you mean {}?", quoted(&near));
            self.diagnostics.push(Diagnostic::warning("name", span, message).help(help));
        }
    }

    fn expressions(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            let index = pending.name as usize;
            let first = self.file.rules[index].take();
            if let Some(first) = first {
                let message = format!("This {} is overruled by a later one", pending.name.name());
                self.diagnostics.push(
                    Diagnostic::warning("overruled", first.name, message)
                        .help("the last one counts; remove the others"),
                );
            }
            if pending.value.len() == 0 {
                continue;
            }
            let expr = self.expression(&pending.value, pending.variables);
            self.file.rules[index] = Some(RuleText { expr, name: pending.span });
        }
    }

    /// Parses a rule, and the variables that it is the first to use.
    fn expression(&mut self, text: &Text, visible: usize) -> Expr {
        let (mut expr, history) = self.one(text, visible);
        self.file.history = self.file.history.max(history);
        self.used(&mut expr, visible, &mut Vec::new());
        expr
    }

    fn one(&mut self, text: &Text, visible: usize) -> (Expr, u8) {
        let variables = &self.file.variables;
        let lookup = |name: &str| match variables.iter().position(|v| v.name == name) {
            Some(index) if index < visible => Visible::Yes(index),
            Some(index) if self.file.language == Language::Extended => Visible::Yes(index),
            Some(index) => Visible::Later(variables[index].span),
            None => Visible::No,
        };
        let names: Vec<&str> = variables.iter().map(|v| v.name.as_str()).collect();
        let mut parser = Parser::new(text, self.file.language, &lookup, &names);
        let expr = parser.whole();
        let (history, mut found) = (parser.history, parser.diagnostics);
        self.diagnostics.append(&mut found);
        (expr, history)
    }

    /// Parses the variables that an expression uses and that no other used before.
    fn used(&mut self, expr: &mut Expr, visible: usize, open: &mut Vec<usize>) {
        if let ExprKind::Variable(index) = expr.kind {
            let variable = &self.file.variables[index];
            if open.contains(&index) || open.len() == MAX_CHAIN {
                let name = &variable.name;
                let (message, help) = match open.contains(&index) {
                    true => (
                        format!("Variable `{name}` uses itself"),
                        "a variable cannot need its own value",
                    ),
                    false => (format!("Variables use each other {MAX_CHAIN} levels deep"), ""),
                };
                self.error("recursion", expr.span, message, help);
                // Nothing that comes later may follow the circle.
                expr.kind = ExprKind::Broken;
            } else if variable.expr.is_none() {
                let text = variable.text.clone();
                let (mut value, history) = self.one(&text, visible);
                self.file.history = self.file.history.max(history);
                open.push(index);
                self.used(&mut value, visible, open);
                open.pop();
                self.file.variables[index].expr = Some(value);
            }
        }
        match &mut expr.kind {
            ExprKind::Negate(x) | ExprKind::Not(x) | ExprKind::Call(_, x, _) => {
                self.used(x, visible, open);
            }
            ExprKind::Binary(_, x, y) => {
                self.used(x, visible, open);
                self.used(y, visible, open);
            }
            _ => {}
        }
    }
}

fn is_keyword(name: &str) -> bool {
    crate::ast::Keyword::from_name(name).is_some()
        || matches!(name, "time" | "meminfo." | "vmstat." | "cpustat.")
}
