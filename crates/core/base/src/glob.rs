//! Patterns of names: `*` for any text, `?` for one character.

/// Returns true if a name matches a pattern. The time grows at most with the product of their
/// lengths.
pub fn matches(pattern: &str, name: &str) -> bool {
    fits(pattern.as_bytes(), name.as_bytes(), next_character)
}

/// Returns true if a name of any bytes matches a pattern. `?` matches one byte.
pub fn matches_bytes(pattern: &[u8], name: &[u8]) -> bool {
    fits(pattern, name, |_, at| at + 1)
}

/// Matches bytes; `next` returns the end of the character at an offset.
fn fits(pattern: &[u8], name: &[u8], next: fn(&[u8], usize) -> usize) -> bool {
    let (mut p, mut n) = (0, 0);
    // Position to continue from if the part of the pattern behind the last star does not match. The
    // star then covers one more byte. Earlier stars need no retry: a longer match of an earlier
    // star leaves less of the name for the last star.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, n));
                p += 1;
            }
            Some(b'?') => {
                p += 1;
                n = next(name, n);
            }
            Some(byte) if *byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((after, taken)) = star else { return false };
                star = Some((after, taken + 1));
                (p, n) = (after, taken + 1);
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

fn next_character(name: &[u8], at: usize) -> usize {
    let is_inside = |byte: &u8| byte & 0xC0 == 0x80;
    at + 1 + name[at + 1..].iter().take_while(|byte| is_inside(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_marks() {
        for (pattern, name) in
            [("web*", "web"), ("web*", "web-1"), ("LNX1*", "LNX12"), ("*", ""), ("a?c", "aüc")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        assert!(matches("*a*b", "xaxxab"));
        for (pattern, name) in [("web*", "we"), ("?", ""), ("a*b", "abc"), ("", "a"), ("A", "a")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_take_no_long_time() {
        assert!(!matches(&"*a".repeat(100), &"a".repeat(99)));
        assert!(!matches(&format!("{}b", "*a".repeat(100)), &"a".repeat(5000)));
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name) in [
            ("web1", "web1"),
            ("web*", "web1"),
            ("*", ""),
            ("*1", "web11"),
            ("w?b*1*", "web-1-a"),
            ("**", "x"),
            ("?", "é"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("web", "web1"), ("", "x"), ("?", ""), ("*2", "web1"), ("a*b*c", "acb"), ("W*", "web")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_end_soon() {
        let pattern = "*a".repeat(60) + "b";
        assert!(!matches(&pattern, &"a".repeat(4096)));
    }

    #[test]
    fn bytes_are_counted_one_by_one() {
        assert!(matches_bytes(b"a??", "a\u{e9}".as_bytes()) && matches("a?", "a\u{e9}"));
        assert!(!matches_bytes(b"a?", "a\u{e9}".as_bytes()) && !matches("a??", "a\u{e9}"));
        assert!(matches_bytes(b"*?", b"\xff") && !matches_bytes(b"??", b"\xff"));
    }
}
