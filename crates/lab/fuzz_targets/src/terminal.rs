//! Targets for output to a terminal: a guest's console, and lines from outside.

use crate::input::Cut;
use base::is_plain;
use pinhead::escape::Lines;
use pinhead::farm_cmds::filter::Filter;
use std::io::Write;

/// Filters a guest's console. The output must be UTF-8 text with complete allowed sequences. It
/// must be the same for every split of the input.
pub(crate) fn console(data: &[u8]) {
    let cut = Cut::new(data);
    let mut filter = Filter::default();
    let mut shown = Vec::new();
    for piece in cut.pieces(cut.stream) {
        let passed = filter.pass(piece);
        // A terminal must get no partial sequence, because the sequence would swallow the output
        // that follows.
        harmless(&passed);
        shown.extend(passed);
    }
    assert_eq!(shown, Filter::default().pass(cut.stream));
    if cut.stream.iter().all(|byte| (0x20..0x7f).contains(byte)) {
        assert_eq!(shown, cut.stream);
    }
}

/// Checks that a text is harmless. The text sets no title, clipboard, key or unlisted mode. It
/// requests only the cursor's position, and its control characters only move the cursor.
fn harmless(shown: &[u8]) {
    let shown = std::str::from_utf8(shown).expect("text in UTF-8");
    let mut pieces = shown.split('\x1b');
    let plain = |text: &str| {
        let is_shown = |c: char| is_plain(c) || matches!(c, '\n' | '\r' | '\t' | '\u{7}' | '\u{8}');
        assert!(text.chars().all(is_shown), "{text:?}");
    };
    plain(pieces.next().unwrap_or_default());
    for piece in pieces {
        let sequence = piece.strip_prefix('[').expect("a control sequence");
        let is_parameter = |c: char| c.is_ascii_digit() || matches!(c, ';' | '?');
        let text = sequence.trim_start_matches(is_parameter);
        let parameters = &sequence[..sequence.len() - text.len()];
        let mut rest = text.chars();
        let last = rest.next().expect("a whole sequence");
        let mut each = parameters.split(';');
        let is_listed = match last {
            'h' | 'l' if parameters.split(';').all(|mode| mode == "4") => true,
            'h' | 'l' => parameters.strip_prefix('?').is_some_and(|modes| {
                modes.split(';').all(|mode| matches!(mode, "1" | "7" | "12" | "25"))
            }),
            'n' => matches!(parameters, "5" | "6"),
            'S' | 'T' => each.all(|one| one.chars().all(|c| c.is_ascii_digit())),
            last => "@ABCDEFGHJKLMPXdfmr".contains(last) && !parameters.contains('?'),
        };
        let is_listed = is_listed && !(matches!(last, 'S' | 'T') && parameters.contains(';'));
        assert!(is_listed && parameters.len() <= 32, "{piece:?}");
        plain(rest.as_str());
    }
}

/// Filters lines from outside, in pieces. Only line ends, tabs and text may pass.
pub(crate) fn escape(data: &[u8]) {
    let cut = Cut::new(data);
    let mut out = Vec::new();
    let mut lines = Lines::new(&mut out);
    for piece in cut.pieces(cut.stream) {
        lines.write_all(piece).expect("room in memory");
    }
    lines.finish().expect("room in memory");
    let text = String::from_utf8(out).expect("text in UTF-8");
    assert!(text.chars().all(|c| is_plain(c) || matches!(c, '\n' | '\t')), "{text:?}");
    if let Ok(whole) = std::str::from_utf8(cut.stream)
        && whole.chars().all(is_plain)
    {
        assert_eq!(text, whole);
    }
}
