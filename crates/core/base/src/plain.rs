//! Text from outside, made safe for a terminal, a table and a page.

/// Returns true if a terminal only displays the character. Control characters move cursors; the
/// format characters of Unicode change the direction of writing and hide text.
pub fn is_plain(c: char) -> bool {
    let hides = matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
    );
    !c.is_control() && !hides
}

/// Makes JSON safe for a terminal. JSON itself escapes only some control characters. The other
/// control characters occur only in strings, and get the same kind of escape here.
pub fn plain_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || is_plain(c) {
            out.push(c);
        } else {
            let mut units = [0; 2];
            out.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}
