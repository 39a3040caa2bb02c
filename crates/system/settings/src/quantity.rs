//! Shares of a whole, as users write them.

use std::fmt;

use base::{Bad, Bytes, Kind, exact_size, parse_size, thousandths};

/// A size, or a share of a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// A share, in thousandths.
    Permille(u64),
    /// A size.
    Bytes(Bytes),
}

impl Share {
    /// Returns the size, as a share of `whole`.
    pub fn of(self, whole: Bytes) -> Bytes {
        match self {
            Share::Permille(permille) => whole.permille(permille),
            Share::Bytes(bytes) => bytes,
        }
    }

    /// Parses `25%` or `256 MiB`. A share is at most the whole.
    pub fn parse(text: &str) -> Result<Share, Bad> {
        match text.trim().strip_suffix('%') {
            Some(number) => percent_number(number).map(Share::Permille),
            None => parse_size(text).map(Share::Bytes).map_err(|bad| match bad.kind {
                Kind::Unit if bad.help == base::SIZE_HELP => {
                    Bad { help: SHARE_HELP.to_owned(), ..bad }
                }
                _ => bad,
            }),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Share::Permille(permille) if permille % 10 == 0 => write!(f, "{}%", permille / 10),
            Share::Permille(permille) => write!(f, "{}.{}%", permille / 10, permille % 10),
            Share::Bytes(bytes) => f.write_str(&exact_size(*bytes)),
        }
    }
}

const SHARE_HELP: &str = "write a part such as \"25%\" or a size such as \"256 MiB\"";
const PERCENT_HELP: &str = "write a part from \"0%\" to \"100%\", at most to a tenth: \"12.5%\"";
/// Parses `12.5%`, in thousandths.
pub fn percent(text: &str) -> Result<u64, Bad> {
    let bad = Bad { kind: Kind::Unit, help: PERCENT_HELP.to_owned() };
    percent_number(text.trim().strip_suffix('%').ok_or(bad)?)
}

fn percent_number(number: &str) -> Result<u64, Bad> {
    let bad = |kind| Bad { kind, help: PERCENT_HELP.to_owned() };
    let permille = thousandths(number.trim_end(), 1).ok_or(bad(Kind::Number))? / 100;
    if permille > 1000 {
        return Err(bad(Kind::MoreThanAll));
    }
    Ok(permille)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_at_most_the_whole() {
        assert_eq!(Share::parse("25%"), Ok(Share::Permille(250)));
        assert_eq!(percent("12.5 %"), Ok(125));
        assert_eq!(percent("100%"), Ok(1000));
        assert_eq!(percent("100.1%").unwrap_err().kind, Kind::MoreThanAll);
        assert_eq!(percent("12.55%").unwrap_err().kind, Kind::Number);
        assert_eq!(percent("25").unwrap_err().kind, Kind::Unit);
        assert!(Share::parse("many").unwrap_err().help.contains("part"));
    }

    #[test]
    fn shown_share_can_be_parsed() {
        for text in ["25%", "12.5%", "256 MiB", "4 GiB", "1537 B", "0 B"] {
            assert_eq!(Share::parse(text).unwrap().to_string(), text);
        }
    }
}
