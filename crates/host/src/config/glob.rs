//! Patterns of names: `*` for any letters, `?` for one.

/// Whether a name fits a pattern. It takes time with the product of their lengths at most.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where to go on if the letters behind the last star do not fit: it takes one more.
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

/// The start of the next character.
fn next(name: &[u8], at: usize) -> usize {
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
}
