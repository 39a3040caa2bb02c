//! The order of names, and suggestions for misspelt names.

use std::cmp::Ordering;

const OFFERED: usize = 3;
/// Maximum number of known names in a message if no name is near.
const LISTED: usize = 20;
/// Maximum length of the names that are compared. The time of a comparison grows with the product
/// of the lengths.
const LONGEST: usize = 64;

/// Returns the known names nearest to `wanted`, nearest first; no names if none is near.
pub fn nearest<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    if wanted.len() > LONGEST {
        return Vec::new();
    }
    let limit = 1 + wanted.len() / 4;
    let mut found: Vec<(usize, &str)> = known
        .filter(|name| name.len() <= LONGEST)
        // Each missing or additional letter is an edit, so most names need no comparison.
        .filter(|name| name.len().abs_diff(wanted.len()) <= limit || is_part(wanted, name))
        .map(|name| (closeness(wanted, name), name))
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(OFFERED).map(|(_, name)| name).collect()
}

/// Returns a correction for an unknown name: the nearest known names, or a list of known names if
/// none is near. Names are escaped.
pub fn correction<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let near = nearest(wanted, known.iter().copied());
    let quoted = |name: &&str| format!("`{}`", name.escape_debug());
    if !near.is_empty() {
        let near: Vec<String> = near.iter().map(quoted).collect();
        return format!("did you mean {}?", near.join(" or "));
    }
    let listed = known.iter().take(LISTED).map(|name| name.escape_debug().to_string());
    let listed: Vec<String> = listed.collect();
    match known.len().saturating_sub(LISTED) {
        _ if known.is_empty() => "there are none".to_owned(),
        0 => format!("there are {}", listed.join(", ")),
        more => format!("there are {} and {more} more", listed.join(", ")),
    }
}

/// Returns the distance between two names, which is 0 if they differ only in case. Names of which
/// one begins with the other, such as `pgscan_direct_thr`, are at most 2 apart if `wanted` has at
/// least four bytes.
fn closeness(wanted: &str, name: &str) -> usize {
    if wanted.eq_ignore_ascii_case(name) {
        return 0;
    }
    let edits = edits(wanted, name);
    if is_part(wanted, name) { edits.min(2) } else { edits }
}

fn is_part(wanted: &str, name: &str) -> bool {
    wanted.len() >= 4 && (name.starts_with(wanted) || wanted.starts_with(name))
}

/// Returns the number of edits that turn one text into the other (the optimal string alignment
/// distance). An edit adds, drops or changes a character, or swaps two neighbours. Case does not
/// count.
pub fn edits(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(LONGEST).collect();
    let b: Vec<char> = b.chars().take(LONGEST).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let change = last[j] + usize::from(!x.eq_ignore_ascii_case(y));
            let mut best = change.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// Compares names in the order that people expect: digits in a name count as a number, so `vm2`
/// comes before `vm10`.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut one, mut other) = (a, b);
    while let (Some(x), Some(y)) = (one.chars().next(), other.chars().next()) {
        let order = if x.is_ascii_digit() && y.is_ascii_digit() {
            let (left, right) = (digits(&mut one), digits(&mut other));
            left.len().cmp(&right.len()).then(left.cmp(right))
        } else {
            (one, other) = (&one[x.len_utf8()..], &other[y.len_utf8()..]);
            x.cmp(&y)
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    // Names that differ only in leading zeros still have an order.
    one.len().cmp(&other.len()).then_with(|| a.cmp(b))
}

/// Takes the digits at the beginning of a text, and returns them without leading zeros.
fn digits<'a>(text: &mut &'a str) -> &'a str {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    *text = rest;
    number.trim_start_matches('0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn natural_order_compares_numbers_by_value() {
        let sorted =
            ["", "7", "vm", "vm1", "vm01a", "vm2", "vm10", "vm10-2", "vm10-10", "vn1", "ü2"];
        let mut names = sorted;
        names.reverse();
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, sorted);
        let long = |last| format!("vm{}{last}", "9".repeat(100));
        assert_eq!(natural(&long(1), &long(2)), Ordering::Less, "no number is too long");
        assert_eq!(natural("vm07", "vm7"), Ordering::Less);
        assert_eq!(natural("vm7", "vm7"), Ordering::Equal);
    }

    #[test]
    fn typing_errors_find_their_word() {
        let known = ["MemFree", "MemTotal", "Cached", "SwapCached", "Shmem", "pgscan_direct"];
        let near = |wanted| nearest(wanted, known.into_iter());
        assert_eq!(near("Memfree"), ["MemFree"]);
        assert_eq!(near("MemFre"), ["MemFree"]);
        assert_eq!(near("MmeTotal"), ["MemTotal"]);
        assert_eq!(near("pgscan_dirct"), ["pgscan_direct"]);
        assert_eq!(near("loadavg"), Vec::<&str>::new());
        assert_eq!(near(&"x".repeat(1000)), Vec::<&str>::new());
    }

    #[test]
    fn correction_names_near_or_known_names() {
        let hint = |wanted, known: &[&'static str]| correction(wanted, known.iter().copied());
        assert_eq!(hint("gest1", &["GUEST1", "MAIN"]), "did you mean `GUEST1`?");
        assert_eq!(hint("web3", &["web1", "web2"]), "did you mean `web1` or `web2`?");
        assert_eq!(hint("nosuch", &["g1", "g2"]), "there are g1, g2");
        assert_eq!(hint("nosuch", &[]), "there are none");
        assert!(hint("nosuch", &["g\x1b"; 23]).ends_with("g\\u{1b} and 3 more"));
    }

    #[test]
    fn edits_are_counted() {
        for (a, b, expected) in [("", "", 0), ("a", "", 1), ("web1", "wbe1", 1), ("a", "abc", 2)] {
            assert_eq!((edits(a, b), edits(b, a)), (expected, expected), "{a} {b}");
        }
        assert_eq!(edits(&"a".repeat(100_000), "a"), LONGEST - 1);
    }
}
