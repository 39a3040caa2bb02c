//! Separates Rust code from its comments and strings.

/// Returns the text with comments and the contents of literals turned into spaces. Lines and
/// columns are kept, so that a position in the result is valid in the original.
pub fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = at + blank_len(&chars[at..], at.checked_sub(1).map(|before| chars[before]));
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

/// Returns the length in characters of the comment or literal that starts here, or 0 if there is
/// none.
fn blank_len(rest: &[char], before: Option<char>) -> usize {
    match rest {
        ['/', '/', ..] => rest.iter().take_while(|c| **c != '\n').count(),
        ['/', '*', ..] => block_comment_len(rest),
        ['"', ..] => quoted_len(rest, '"'),
        ['r', '"' | '#', ..] if !before.is_some_and(is_word) => raw_string_len(rest),
        // A lifetime has no closing quote. A character literal has a closing quote after one
        // character or an escape.
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => quoted_len(rest, '\''),
        _ => 0,
    }
}

fn is_word(c: char) -> bool {
    // The b of br"" belongs to the literal. Any other letter would belong to a name.
    c != 'b' && (c.is_alphanumeric() || c == '_')
}

fn block_comment_len(rest: &[char]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => {
                depth += 1;
                at += 2;
            }
            ['*', '/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    break;
                }
            }
            _ => at += 1,
        }
    }
    at
}

fn quoted_len(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    rest.len().min(at + 1)
}

/// Returns 0 for `r#name`, which is a word and not a string.
fn raw_string_len(rest: &[char]) -> usize {
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    let body = 1 + hashes;
    if rest.get(body) != Some(&'"') {
        return 0;
    }
    let ends = |at: usize| {
        rest[at] == '"'
            && rest[at + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
    };
    (body + 1..rest.len()).find(|at| ends(*at)).map_or(rest.len(), |at| at + 1 + hashes)
}

#[cfg(test)]
mod tests {
    use super::code_only;

    #[test]
    fn comments_and_literals_become_spaces() {
        let check = |text: &str, expected: &str| {
            let code = code_only(text);
            assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{text}");
            assert_eq!(code.chars().count(), text.chars().count(), "{text}");
        };
        check("a // b\nc", "a c");
        check("a /* b /* c */ d */ e", "a e");
        check(r#"a("b \" c", d)"#, "a( , d)");
        check(r##"a(r#"b " c"#, br"\", d)"##, "a( , b , d)");
        check("f('\"', '\\'', 'x') + g::<'a>(b)", "f( , , ) + g::<'a>(b)");
        check("r#type + for_r + \"é\" + z", "r#type + for_r + + z");
        check("a \"never closed", "a");
        check("a /* never closed", "a");
        check("a r#\"never closed\"", "a");
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(code_only("\"a\nb\" c").lines().count(), 2);
    }
}
