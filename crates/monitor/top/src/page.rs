//! A page of text in place of a screen: a guest's log, or the decisions about it.

use super::text::wrapped;
use base::{columns, plain};

/// Maximum number of lines of a page. Of a longer text, the page keeps the last lines.
const LINES_MAX: usize = 20_000;
/// Maximum width of a line that is not wrapped.
const LINE_MAX: usize = 2_000;
/// Maximum indentation that the further lines of a wrapped line keep.
const INDENT_MAX: usize = 12;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) title: String,
    lines: Vec<String>,
    /// First line shown.
    pub(super) scroll: usize,
}

impl Page {
    /// Returns the page of a text, at the text's end.
    pub(super) fn at_end(title: String, text: &str) -> Page {
        let all = text.lines().count();
        let lines = text.lines().skip(all.saturating_sub(LINES_MAX)).map(str::to_owned).collect();
        Page { title, lines, scroll: usize::MAX }
    }

    /// Returns the lines for a width, without control characters.
    pub(super) fn lines(&self, width: usize) -> Vec<String> {
        self.lines.iter().flat_map(|line| fitted(line, width)).collect()
    }

    /// Scrolls by a number of lines on a screen of this size.
    pub(super) fn travel(&mut self, by: isize, (width, height): (usize, usize)) {
        let last = self.lines(width).len().saturating_sub(height);
        self.scroll = self.scroll.min(last).saturating_add_signed(by).min(last);
    }
}

fn fitted(line: &str, width: usize) -> Vec<String> {
    let line = plain(line, LINE_MAX);
    if columns(&line) <= width {
        return vec![line];
    }
    let indent = line.chars().take_while(|c| *c == ' ').count().min(INDENT_MAX);
    wrapped(&line, indent, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_opens_at_its_end_and_scrolls_within_it() {
        let text: String = (0..30).map(|line| format!("line {line}\n")).collect();
        let mut page = Page::at_end("log".into(), &text);
        let place = |page: &mut Page, by| {
            page.travel(by, (80, 10));
            page.scroll
        };
        assert_eq!(place(&mut page, 0), 20);
        assert_eq!(place(&mut page, 5), 20);
        assert_eq!(place(&mut page, -3), 17);
        assert_eq!(place(&mut page, isize::MIN), 0);
        let hostile = Page::at_end(String::new(), "  a\u{1b}[2Jb long line\n\n");
        assert_eq!(hostile.lines(12), ["  a\u{fffd}[2Jb", "  long line", ""]);
    }
}
