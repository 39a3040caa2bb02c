//! Patterns for guests' names.

/// Whether a name matches a pattern in which `*` stands for any text and `?` for any one
/// character. It takes at most as many steps as the product of the two lengths.
pub fn matches_glob(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    // Where the last `*` stands, and up to where it has taken the name: only the last one ever
    // needs to take more, since an earlier one would only leave less for it.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                p = at + 1;
                n = taken + 1;
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches_glob;

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
            assert!(matches_glob(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("web", "web1"), ("", "x"), ("?", ""), ("*2", "web1"), ("a*b*c", "acb"), ("W*", "web")]
        {
            assert!(!matches_glob(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_end_soon() {
        let pattern = "*a".repeat(60) + "b";
        assert!(!matches_glob(&pattern, &"a".repeat(4096)));
    }
}
