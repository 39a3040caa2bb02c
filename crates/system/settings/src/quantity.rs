//! Shares of a whole, as users write them.

use std::fmt;

use base::{Bad, Bytes, Kind, WHOLE, exact_size, parse_percent, parse_size};

/// A size, or a share of a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// A share, in thousandths.
    Permille(u64),
    /// A size.
    Bytes(Bytes),
}

impl Share {
    /// Returns the size. A share is taken of `whole`.
    pub fn of(self, whole: Bytes) -> Bytes {
        match self {
            Share::Permille(permille) => whole.permille(permille),
            Share::Bytes(bytes) => bytes,
        }
    }

    /// Parses `25%` or `256 MiB`. A share is at most the whole.
    pub fn parse(text: &str) -> Result<Share, Bad> {
        match text.trim().ends_with('%') {
            true => parse_percent(text, WHOLE).map(Share::Permille),
            false => parse_size(text).map(Share::Bytes).map_err(|bad| match bad.kind {
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

const SHARE_HELP: &str = "write a percentage such as \"25%\" or a size such as \"256M\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_is_at_most_the_whole() {
        assert_eq!(Share::parse("25%"), Ok(Share::Permille(250)));
        assert_eq!(Share::parse(" 12.5 % "), Ok(Share::Permille(125)));
        assert_eq!(Share::parse("256M"), Share::parse("256 MiB"));
        assert_eq!(Share::parse("100.1%").unwrap_err().kind, Kind::MoreThanAll);
        assert!(Share::parse("many").unwrap_err().help.contains("percentage"));
    }

    #[test]
    fn shown_share_can_be_parsed() {
        for text in ["25%", "12.5%", "256 MiB", "4 GiB", "1537 B", "0 B"] {
            assert_eq!(Share::parse(text).unwrap().to_string(), text);
        }
    }
}
