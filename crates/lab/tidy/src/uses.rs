//! The paths in a file's code: in `use` declarations, and elsewhere.

/// A path in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The parts of the path, beginning with `crate`, `self`, `super` or a name. The last part of a
    /// glob is `*`, and an empty part begins a path to another crate (`::a`).
    pub path: Vec<String>,
    /// Name by which the file uses the path. Empty for a glob.
    pub name: String,
    /// The place of the path in the file.
    pub kind: Kind,
}

/// The place of a path in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In a `use`, for the file's own code.
    Import,
    /// In a `pub use`, for the code of other files.
    HandedOn,
    /// Elsewhere in the code.
    Inline,
}

/// Returns all paths in code without comments and literals.
pub fn of(code: &str) -> Vec<Use> {
    let words = words(code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        if words[at] == "use" {
            let kind = if is_handed_on(&words[..at]) { Kind::HandedOn } else { Kind::Import };
            at += 1;
            tree(&words, &mut at, &[], kind, &mut found);
        } else if is_name(words[at]) && (at == 0 || words[at - 1] != "::") {
            at = inline(&words, at, &mut found);
        } else {
            at += 1;
        }
    }
    found
}

/// Returns true if there is a `pub`, or a `pub(…)`, before the `use` at the end of `before`.
fn is_handed_on(before: &[&str]) -> bool {
    match before {
        [.., "pub"] => true,
        [.., ")"] => {
            let open = before.iter().rposition(|word| *word == "(");
            open.is_some_and(|at| at > 0 && before[at - 1] == "pub")
        }
        _ => false,
    }
}

/// Collects a path outside `use` declarations, such as `crate::a::b` or `child::f`. The path's last
/// part may be a method. A single word counts only if it begins with a capital letter, as types and
/// constants do.
fn inline(words: &[&str], start: usize, found: &mut Vec<Use>) -> usize {
    let mut path = vec![words[start].to_owned()];
    let mut at = start + 1;
    while at + 1 < words.len() && words[at] == "::" && is_name(words[at + 1]) {
        path.push(words[at + 1].to_owned());
        at += 2;
    }
    let name = path.last().cloned().unwrap_or_default();
    if path.len() > 1 || name.starts_with(char::is_uppercase) {
        found.push(Use { path, name, kind: Kind::Inline });
    }
    at
}

/// Collects the tree of a `use`: a path, `{...}`, `*`, `as`.
fn tree(words: &[&str], at: &mut usize, prefix: &[String], kind: Kind, found: &mut Vec<Use>) {
    let mut path = prefix.to_vec();
    while let Some(word) = words.get(*at) {
        *at += 1;
        match *word {
            "::" if path.is_empty() => path.push(String::new()),
            "::" => {}
            "{" => {
                while let Some(next) = words.get(*at) {
                    match *next {
                        "}" => {
                            *at += 1;
                            return;
                        }
                        "," => *at += 1,
                        // This `use` is a word in a macro, and begins no tree.
                        ";" => return,
                        _ => tree(words, at, &path, kind, found),
                    }
                }
            }
            "," | "}" | ";" => {
                *at -= 1;
                break;
            }
            "as" => {
                let name = words.get(*at).copied().unwrap_or_default().to_owned();
                *at += 1;
                found.push(Use { path, name, kind });
                return;
            }
            "*" => {
                path.push("*".to_owned());
                found.push(Use { path, name: String::new(), kind });
                return;
            }
            // `a::{self}` is `a`.
            "self" if !path.is_empty() => {}
            name => path.push(name.to_owned()),
        }
    }
    if !path.is_empty() {
        let name = path.last().cloned().unwrap_or_default();
        found.push(Use { path, name, kind });
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Splits code into names, `::`, and single other characters.
fn words(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let len = if first.is_alphanumeric() || first == '_' {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        if !first.is_whitespace() {
            found.push(&rest[..len]);
        }
        rest = &rest[len..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Kind, of};

    fn check(code: &str, expected: &[&str]) {
        let found: Vec<String> = of(code)
            .into_iter()
            .map(|used| {
                let path = used.path.join("::");
                let mark = match used.kind {
                    Kind::Import => "use ",
                    Kind::HandedOn => "pub ",
                    Kind::Inline => "",
                };
                format!("{mark}{path} = {}", used.name)
            })
            .collect();
        assert_eq!(found, expected, "{code}");
    }

    #[test]
    fn trees_are_taken_apart() {
        check("use a::b;", &["use a::b = b"]);
        check(
            "use a::{self, b::{C, D as E}, f::*};",
            &["use a = a", "use a::b::C = C", "use a::b::D = E", "use a::f::* = "],
        );
        check("pub(crate) use self::a::B;", &["pub self::a::B = B"]);
        check("use ::a::b;", &["use ::a::b = b"]);
        check("pub use a::{b, c};", &["pub a::b = b", "pub a::c = c"]);
    }

    #[test]
    fn paths_in_code_are_seen() {
        check("fn f(a: super::B) { crate::c::d(e.g) }", &["super::B = B", "crate::c::d = d"]);
        check("f::<a::B>()", &["a::B = B"]);
        check("fn f(a: B) -> c { d.e(F) }", &["B = B", "F = F"]);
    }
}
