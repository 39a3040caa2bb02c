//! Patterns of names, which select the guests of a report.

use crate::Error;
use base::glob;
use model::GuestIdentity;

/// Maximum length of a pattern; no name is longer.
const PATTERN_MAX: usize = 256;

/// A selection of guests: a pattern of names and classes, or the name of one guest. In a pattern
/// `*` matches any text, `?` any character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    /// True for a name, in which `*` and `?` have no special meaning.
    is_name: bool,
}

impl Pattern {
    /// Parses a pattern of names and classes.
    pub fn new(text: &str) -> Result<Pattern, Error> {
        Pattern::of(text, false)
    }

    /// Returns the selection of the guest with this name.
    pub fn guest(name: &str) -> Result<Pattern, Error> {
        Pattern::of(name, true)
    }

    fn of(text: &str, is_name: bool) -> Result<Pattern, Error> {
        if text.len() > PATTERN_MAX {
            return Err(Error::LongPattern { length: text.len(), most: PATTERN_MAX });
        }
        Ok(Pattern { text: text.to_owned(), is_name })
    }

    /// Returns true if the pattern matches the name.
    pub fn matches(&self, name: &str) -> bool {
        if self.is_name { self.text == name } else { glob::matches(&self.text, name) }
    }

    /// Returns true if the pattern matches the guest's name or class.
    pub(crate) fn takes(&self, who: &GuestIdentity) -> bool {
        let class = Some(&who.class).filter(|class| !class.is_empty() && !self.is_name);
        self.matches(&who.name) || class.is_some_and(|class| self.matches(class))
    }

    /// Returns true if the pattern is the name of one guest.
    pub fn is_name(&self) -> bool {
        self.is_name
    }

    /// Returns the pattern as written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell_and_end() {
        let check = |pattern: &str, name: &str, expected| {
            let pattern = Pattern::new(pattern).expect("a pattern");
            assert_eq!(pattern.matches(name), expected, "{pattern:?} {name}");
        };
        check("LNX1*", "LNX1004", true);
        check("LNX1*", "LNX2004", false);
        check("*web?", "a-web1", true);
        check("*web?", "a-web", false);
        check("", "", true);
        check("*", "", true);
        check(&"*a".repeat(50), &"a".repeat(5000), true);
        check(&"*a".repeat(50), &"b".repeat(5000), false);
        assert!(Pattern::new(&"*".repeat(1000)).is_err());
    }

    #[test]
    fn name_of_a_guest_is_no_pattern_and_no_class() {
        let of = |name: &str, class: &str| GuestIdentity {
            name: name.into(),
            class: class.into(),
            ..GuestIdentity::default()
        };
        let takes =
            |text: &str, who: &GuestIdentity| Pattern::guest(text).expect("a name").takes(who);
        assert!(takes("web1", &of("web1", "web")) && !takes("web*", &of("web1", "web")));
        assert!(!takes("web", &of("web1", "web")) && takes("web*", &of("web*", "")));
    }
}
