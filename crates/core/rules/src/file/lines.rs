//! Lines: comments, continued lines, names and values, the language.

use super::reader::FileReader;
use super::{FileKind, Language, MAX_LINE, Name, RuleFile, Text};
use crate::diag::{Diagnostic, LAST_QUOTE, Span};
use crate::parse::HostName;

/// UTF-8's byte-order mark, which some editors put before a text.
const MARK: &[u8] = b"\xef\xbb\xbf";
/// Quotes of editors and other languages.
const QUOTES: [char; 9] =
    ['"', '\'', '`', '\u{2018}', '\u{2019}', '\u{201a}', '\u{201c}', '\u{201d}', '\u{201e}'];

impl FileReader {
    /// Creates a reader of a host rules file if `host_name` is given, and of a guest's rules file
    /// otherwise.
    pub(super) fn new(host_name: Option<HostName>) -> FileReader {
        // Keywords of a guest's rules need one past interval. Only pinhead reads host rules, so the
        // additions are on.
        let (kind, language, history) = match host_name {
            None => (FileKind::Guest, Language::Original, 1),
            Some(_) => (FileKind::Host, Language::Extended, 0),
        };
        FileReader {
            file: RuleFile {
                kind,
                language,
                variables: Vec::new(),
                history,
                settings: [None; Name::ALL.len()],
                rules: [const { None }; Name::ALL.len()],
                set: [false; Name::ALL.len()],
                unread: [false; Name::ALL.len()],
            },
            host_name,
            pending: Vec::new(),
            room: 2,
            first: true,
            diagnostics: Vec::new(),
        }
    }

    pub(super) fn lines(&mut self, text: &[u8]) {
        let mut at = 0;
        let mark = Span::new(0, MARK.len());
        if text.starts_with(MARK) {
            at = MARK.len();
        }
        while at < text.len() {
            at = self.line(text, at);
        }
        if self.file.kind == FileKind::Host || self.file.language == Language::Extended {
            return;
        }
        if text.starts_with(MARK) {
            let message = "The original daemon refuses a byte-order mark, which begins this file";
            self.portable(mark, message, "save the file as UTF-8 without such a mark");
        }
        if text.last().is_some_and(|last| *last != b'\n') {
            let message = "The original daemon refuses a last line without an end";
            let last = Span::new(text.len() - 1, text.len());
            self.portable(last, message, "end the file with a newline");
        }
    }

    fn portable(&mut self, span: Span, message: &str, help: &str) {
        self.diagnostics.push(Diagnostic::warning("portable", span, message).help(help));
    }

    /// Refuses the whole file with one error, without reading it further.
    pub(super) fn refused(
        mut self,
        code: &'static str,
        message: String,
        help: &str,
    ) -> (RuleFile, Vec<Diagnostic>) {
        self.file.unread = [true; Name::ALL.len()];
        self.error(code, Span::new(0, 1), message, help);
        (self.file, self.diagnostics)
    }

    pub(super) fn error(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: &str,
    ) {
        let mut error = Diagnostic::error(code, span, message);
        if !help.is_empty() {
            error.help = Some(help.into());
        }
        self.diagnostics.push(error);
    }

    /// Reads the line at `at` and its continuations; returns the start of the next line.
    pub(super) fn line(&mut self, text: &[u8], mut at: usize) -> usize {
        let mut line = Text::starting(at);
        let comment = text[at] == b'#';
        let extended = self.file.language == Language::Extended;
        let mut in_quotes = false;
        loop {
            let end = text[at..].iter().position(|&b| b == b'\n').map_or(text.len(), |n| at + n);
            if end - at > MAX_LINE {
                let message = format!("The line has more than {MAX_LINE} characters");
                let help = "put parts of a long rule into variables of their own";
                let name = text[at..].split(|&b| b == b'=').next().unwrap_or_default();
                self.unread(&String::from_utf8_lossy(name.trim_ascii()));
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
                // The white space of C, which includes the vertical tab.
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
            self.unread(&name);
            self.error("quotes", span, "The value has no closing quote", "end the value with `\"`");
            return;
        }
        if open > equals + 1 {
            let span = line.span(equals + 1, open);
            let message = "Text between `=` and the first quote is ignored";
            self.diagnostics.push(Diagnostic::warning("ignored-text", span, message));
        }
        let value = line.cut(open + 1, close);
        let first = std::mem::replace(&mut self.first, false);
        if name == "LANGUAGE" && self.language(first, name_span, &value) {
            return;
        }
        let known = Name::from_text(&name);
        if let Some(known) = known {
            self.file.set[known as usize] = true;
        }
        match known {
            Some(known) if known.kind() != self.file.kind => {
                self.of_other_kind(known, name, name_span, value)
            }
            Some(name) if name.is_expression() => self.rule(name, name_span, value),
            Some(name) => self.number(name, name_span, &value),
            None => self.variable(name, name_span, value),
        }
    }

    fn unquoted(&mut self, line: &Text, equals: usize, name: &str) {
        let span = line.span(equals, line.len());
        let message = format!("The value of `{name}` has no quotes");
        // The text after a `#` was meant as a comment, and typographic quotes were meant as plain
        // quotes.
        let value = line.bytes[equals + 1..].split(|&b| b == b'#').next().unwrap_or_default();
        let value = std::str::from_utf8(value).unwrap_or_default();
        let value = value.trim_matches(QUOTES);
        let can_be_shown = !value.is_empty() && value.bytes().all(|b| b.is_ascii_graphic());
        let help = match line.byte(0) {
            b'#' => "a comment starts with `#` in the first column; this `#` does not".into(),
            _ if can_be_shown && !value.as_bytes().contains(&b'"') => {
                format!("write {name}=\"{value}\"")
            }
            _ => format!("write {name}=\"...\", with straight double quotes"),
        };
        self.unread(name);
        self.error("quotes", span, message, &help);
    }

    fn unread(&mut self, name: &str) {
        if let Some(name) = Name::from_text(name) {
            self.file.unread[name as usize] = true;
        }
    }

    /// Returns true if the line chooses the language. If it is not the first setting, LANGUAGE is
    /// an ordinary variable, as in the original.
    fn language(&mut self, first: bool, name: Span, value: &Text) -> bool {
        match (first, value.bytes.as_slice()) {
            (true, b"2") => self.file.language = Language::Extended,
            (true, b"1") if self.file.kind == FileKind::Host => {
                let help = "remove the line: a host's rules file needs none";
                let message = "A host's rules are always in language 2";
                self.error("language", value.all(), message, help);
            }
            (true, b"1") => {}
            (true, digits) if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
                let help = "write 1 for the original's language, or 2 for pinhead's additions";
                self.error("language", value.all(), "There is no such LANGUAGE", help);
            }
            (true, bytes) if bytes.contains(&b'"') => {
                let message = "This LANGUAGE has no effect, because its value contains a quote";
                let warning = Diagnostic::warning("language", name, message);
                self.diagnostics.push(warning.label("read as a variable").help(LAST_QUOTE));
                return false;
            }
            (true, _) => return false,
            (false, _) => {
                let message = "LANGUAGE has no effect, because it is not the first setting";
                let warning = Diagnostic::warning("language", name, message)
                    .label("read as a variable")
                    .help("move it above all other settings");
                self.diagnostics.push(warning);
                return false;
            }
        }
        true
    }
}
