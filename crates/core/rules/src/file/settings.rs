//! The settings of a line: a rule, a number or a user variable.

use super::reader::{FileReader, Pending};
use super::{FileKind, MAX_NAME, MAX_VARIABLES, Name, Setting, Text, Variable};
use crate::diag::{Diagnostic, LAST_QUOTE, Span};
use crate::parse::quoted;
use base::nearest;

impl FileReader {
    pub(super) fn rule(&mut self, name: Name, span: Span, value: Text) {
        if value.len() == 0 {
            let message = format!("{} is empty: it counts as not set", name.name());
            self.diagnostics.push(
                Diagnostic::warning("empty-rule", span, message)
                    .help("remove it, or write \"0\" for a rule that is never true"),
            );
            // If a file sets a rule twice, the last setting counts, even if it is empty.
            self.pending.push(Pending { name, span, value, variables: 0 });
            return;
        }
        let variables = self.file.variables.len();
        self.pending.push(Pending { name, span, value, variables });
    }

    /// Handles a name of the other kind of file. A guest's file may use such a name as a variable,
    /// as in the original.
    pub(super) fn of_other_kind(&mut self, known: Name, name: String, span: Span, value: Text) {
        let message = |whose| format!("{} belongs in {whose} rules file", known.name());
        match self.file.kind {
            FileKind::Host => {
                let help = "it has no effect here: pinheadd reads it in the guest";
                self.error("wrong-file", span, message("a guest's"), help);
            }
            FileKind::Guest => {
                if name == known.name() {
                    let warning = Diagnostic::warning("wrong-file", span, message("a host's"))
                        .label("read as a variable")
                        .help("here it decides nothing: `pinhead host` reads it on the host");
                    self.diagnostics.push(warning);
                }
                self.variable(name, span, value);
            }
        }
    }

    pub(super) fn number(&mut self, name: Name, span: Span, value: &Text) {
        let at = if value.len() == 0 { span } else { value.all() };
        if value.len() == 0 && !must_be_positive(name) {
            let message = format!("{} is empty: it counts as 0", name.name());
            let help = "write the number 0";
            self.diagnostics.push(Diagnostic::warning("empty-number", at, message).help(help));
            self.file.settings[name as usize] = Some(Setting { value: 0, span: at });
            return;
        }
        let digits = value.len() > 0 && value.bytes.iter().all(u8::is_ascii_digit);
        let parsed: Option<u64> = value.str(0, value.len()).parse().ok().filter(|_| digits);
        let label = name.name();
        self.file.unread[name as usize] = true;
        // The kernel's own type has no room for larger numbers.
        let value = match parsed {
            Some(value) if value <= i64::MAX as u64 => value,
            Some(_) => return self.error("number", at, format!("{label} is too large"), ""),
            None => {
                let message = format!("{label} is a whole number, in digits only");
                let help = match name {
                    _ if value.bytes.contains(&b'"') => LAST_QUOTE,
                    Name::Update => "for example UPDATE=\"1\", in seconds",
                    Name::CmmMin | Name::CmmMax => "a number of pages of 4 KiB",
                    _ => "a number of CPUs",
                };
                return self.error("number", at, message, help);
            }
        };
        if value == 0 && must_be_positive(name) {
            let help = match name {
                Name::Update => "the interval is at least 1 second",
                _ => "at least one CPU stays online",
            };
            return self.error("number", at, format!("{label} must be greater than 0"), help);
        }
        self.file.unread[name as usize] = false;
        self.file.settings[name as usize] = Some(Setting { value, span: at });
    }

    pub(super) fn variable(&mut self, name: String, span: Span, text: Text) {
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
        if is_keyword(self.file.kind, &name) {
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
                "The variables' names and values need {} bytes; the maximum is {MAX_VARIABLES}",
                self.room
            );
            return self.error("too-many-variables", span, message, "shorten names or values");
        }
        self.lookalike(&name, span);
        self.file.variables.push(Variable { name, span, expr: None, text, levels: 0 });
    }

    /// Warns of a variable that the original takes for a predefined name. The original compares
    /// only as many letters as the predefined name has.
    fn lookalike(&mut self, name: &str, span: Span) {
        let upper = name.to_ascii_uppercase();
        let (kind, names) = (self.file.kind, self.file.kind.names());
        let begins = |n: &&Name| kind == FileKind::Guest && upper.starts_with(n.name());
        if let Some(own) = names.iter().find(begins) {
            let message = format!("The original daemon takes `{name}` for {}", own.name());
            let help = "choose a name that does not begin with a predefined one";
            self.diagnostics.push(Diagnostic::warning("name", span, message).help(help));
            return;
        }
        let near = nearest(&upper, names.iter().map(|n| n.name()));
        if name == upper && !near.is_empty() {
            let message = format!("`{name}` is not a setting, so this line defines a variable");
            let help = format!("did you mean {}?", quoted(&near));
            self.diagnostics.push(Diagnostic::warning("name", span, message).help(help));
        }
    }
}

fn must_be_positive(name: Name) -> bool {
    matches!(name, Name::Update | Name::CpuMin)
}

fn is_keyword(kind: FileKind, name: &str) -> bool {
    if kind == FileKind::Host {
        return matches!(name, "guest" | "host");
    }
    crate::ast::Keyword::from_name(name).is_some()
        || matches!(name, "time" | "meminfo." | "vmstat." | "cpustat.")
}
