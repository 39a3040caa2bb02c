//! Sizes of memory, as users write and read them.

use crate::{Bad, Bytes, GIB, KIB, Kind, MIB, split, thousandths};

/// The help for a missing or wrong size.
pub const SIZE_HELP: &str = "write a size with its unit, such as \"256M\" or \"4 GiB\"";

const UNITS: [(&str, u64); 5] =
    [("B", 1), ("KiB", KIB), ("MiB", MIB), ("GiB", GIB), ("TiB", 1 << 40)];

/// Maximum size: 4 PiB, the most memory that x86-64 can address.
const LARGEST: u64 = 1 << 52;

/// Parses `4 GiB`, `4GiB`, `4G` or `4g`. All units count in steps of 1024.
pub fn parse_size(text: &str) -> Result<Bytes, Bad> {
    let bad = |kind| Bad { kind, help: SIZE_HELP.to_owned() };
    let (number, unit) = split(text);
    let Some((_, unit)) = UNITS.iter().find(|(name, _)| is_unit(name, unit)) else {
        return Err(unit_help(number, unit).unwrap_or(bad(Kind::Unit)));
    };
    let thousandths = thousandths(number, 3).ok_or(bad(Kind::Number))?;
    let bytes = u128::from(thousandths) * u128::from(*unit) / 1000;
    let bytes = u64::try_from(bytes).ok().filter(|bytes| *bytes <= LARGEST);
    bytes.map(Bytes).ok_or(bad(Kind::Overflow))
}

/// Parses a size as whole MiB, rounded down. A number without a unit means MiB.
pub fn parse_mib(text: &str) -> Result<u64, Bad> {
    match text.trim().parse::<u64>() {
        Ok(mib) if mib <= LARGEST / MIB => Ok(mib),
        _ => parse_size(text).map(Bytes::as_mib),
    }
}

/// True if a text is a unit's name, or its letter alone.
fn is_unit(name: &str, text: &str) -> bool {
    let letter = name.strip_suffix("iB").unwrap_or(name);
    text.eq_ignore_ascii_case(name) || text.eq_ignore_ascii_case(letter)
}

/// Returns a correction for a unit such as `GB`, which counts in steps of 1000 elsewhere.
fn unit_help(number: &str, unit: &str) -> Option<Bad> {
    let letter = unit.chars().next()?.to_ascii_uppercase();
    let is_usual = unit.len() == 2 && !number.is_empty();
    let (name, _) = UNITS.iter().skip(1).find(|(name, _)| name.starts_with(letter))?;
    let help = format!("write \"{number} {name}\": units count in steps of 1024");
    is_usual.then_some(Bad { kind: Kind::Unit, help })
}

/// Formats a size for a setting, in the largest unit that shows the size exactly. The result can be
/// parsed.
pub fn exact_size(size: Bytes) -> String {
    let exact = UNITS.iter().rev().find(|(_, unit)| size.0 > 0 && size.0.is_multiple_of(*unit));
    match exact {
        Some((name, unit)) => format!("{} {name}", size.0 / unit),
        None => format!("{} B", size.0),
    }
}

/// Formats a size for display: rounded, in the unit that reads best.
pub fn size_text(size: Bytes) -> String {
    let of = |unit: u64| size.0 as f64 / unit as f64;
    match size.0 {
        GIB.. => format!("{:.1} GiB", of(GIB)),
        0 | MIB.. => format!("{:.0} MiB", of(MIB)),
        _ => format!("{:.0} KiB", of(KIB)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        let ok = |text: &str| parse_size(text).unwrap().0;
        assert_eq!(ok("4 GiB"), 4 << 30);
        assert_eq!(ok("256MiB"), 256 << 20);
        assert_eq!(ok("1.5 KiB"), 1536);
        assert_eq!(ok("0 B"), 0);
        for text in ["4G", "4 g", "4gib", "4096M", "4096 mib", "4194304k"] {
            assert_eq!(parse_size(text).map(|size| size.0).unwrap_or(0), 4 << 30, "{text}");
        }
        let bad = |text: &str| parse_size(text).unwrap_err();
        assert_eq!(bad("4").kind, Kind::Unit);
        assert!(bad("4 gb").help.contains("\"4 GiB\""));
        assert!(bad("4 Gi").help.contains("\"4 GiB\""));
        assert_eq!(bad("-4 GiB").kind, Kind::Unit);
        assert_eq!(bad(" GiB").kind, Kind::Number);
        assert_eq!(bad("1.2.3 GiB").kind, Kind::Number);
        assert_eq!(bad("9000000 TiB").kind, Kind::Overflow);
        assert_eq!(bad("9999999999999999999999 B").kind, Kind::Number);
    }

    #[test]
    fn number_without_unit_may_mean_mib() {
        let mib = |text: &str| parse_mib(text).map_err(|bad| bad.kind);
        assert_eq!((mib("256"), mib("1G"), mib("1.5 KiB")), (Ok(256), Ok(1024), Ok(0)));
        assert_eq!((mib("-1"), mib("99999999999999")), (Err(Kind::Unit), Err(Kind::Unit)));
    }

    #[test]
    fn sizes_are_told_in_the_unit_that_reads_best() {
        for (bytes, text) in [
            (0, "0 MiB"),
            (512, "0 KiB"),
            (20 * KIB, "20 KiB"),
            (610 * MIB, "610 MiB"),
            (50 * MIB - 1, "50 MiB"),
            (3174 * MIB, "3.1 GiB"),
        ] {
            assert_eq!(size_text(Bytes(bytes)), text);
        }
        for text in ["256 MiB", "4 GiB", "1537 B", "0 B"] {
            assert_eq!(exact_size(parse_size(text).unwrap()), text);
        }
    }
}
