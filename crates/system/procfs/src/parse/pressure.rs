//! A file of /proc/pressure: `some avg10=0.12 avg60=0.29 avg300=0.41 total=9784276`.

use model::counters::{PsiField, PsiLine};

use super::{Malformed, decimal, lines, number, skip_blanks, words};

/// The four fields of one line, in the kernel's order.
pub type Fields = [f64; 4];

/// The content of a pressure file. A line may be missing: for CPU, kernels before 5.13 have no
/// `full`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// At least one task was stalled.
    pub some: Option<Fields>,
    /// All tasks were stalled at once.
    pub full: Option<Fields>,
}

impl Pressure {
    /// Returns one value; `None` if its line is missing.
    pub fn get(&self, line: PsiLine, field: PsiField) -> Option<f64> {
        let fields = match line {
            PsiLine::Some => self.some,
            PsiLine::Full => self.full,
        }?;
        Some(fields[field as usize])
    }
}

/// Parses the text of the file. Lines with other names are ignored, for future kernels.
pub fn parse(bytes: &[u8]) -> Result<Pressure, Malformed> {
    let mut pressure = Pressure::default();
    for (index, line) in lines(bytes).enumerate() {
        let (slot, rest) = if let Some(rest) = line.strip_prefix(b"some ") {
            (&mut pressure.some, rest)
        } else if let Some(rest) = line.strip_prefix(b"full ") {
            (&mut pressure.full, rest)
        } else {
            continue;
        };
        let what = "is no line of pressure";
        *slot = Some(fields(rest).ok_or(Malformed { line: index + 1, what })?);
    }
    Ok(pressure)
}

/// Returns only the total time of `line`, in microseconds.
pub fn total_us(bytes: &[u8], line: PsiLine) -> Option<u64> {
    let mut all = lines(bytes).map(words);
    let name = line.name().as_bytes();
    let mut found = all.find_map(|mut words| (words.next()? == name).then_some(words))?;
    number(found.find_map(|word| word.strip_prefix(b"total="))?)
}

fn fields(mut rest: &[u8]) -> Option<Fields> {
    let mut out = [0.0; 4];
    for (value, name) in out.iter_mut().zip([&b"avg10="[..], b"avg60=", b"avg300=", b"total="]) {
        (*value, rest) = decimal(skip_blanks(rest).strip_prefix(name)?)?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: &str = "some avg10=0.12 avg60=0.29 avg300=0.41 total=9784276";

    #[test]
    fn both_lines_are_read() {
        let text = format!("{SOME}\nfull avg10=0.00 avg60=0.00 avg300=0.10 total=3\n");
        let pressure = parse(text.as_bytes()).unwrap();
        assert_eq!(pressure.some, Some([0.12, 0.29, 0.41, 9_784_276.0]));
        assert_eq!(pressure.get(PsiLine::Full, PsiField::Avg300), Some(0.10));
        assert_eq!(pressure.get(PsiLine::Full, PsiField::Total), Some(3.0));
    }

    #[test]
    fn a_line_that_is_not_there_is_missing_and_not_zero() {
        let pressure = parse(SOME.as_bytes()).unwrap();
        assert_eq!(pressure.get(PsiLine::Some, PsiField::Avg10), Some(0.12));
        assert_eq!(pressure.get(PsiLine::Full, PsiField::Avg10), None);
        assert_eq!(parse(b""), Ok(Pressure::default()));
        assert_eq!(parse(b"other x=1\n"), Ok(Pressure::default()));
    }

    #[test]
    fn a_total_is_that_of_its_line() {
        let text = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=1500\nfull avg10=0.00 total=9\n";
        assert_eq!(total_us(text, PsiLine::Some), Some(1500));
        assert_eq!(total_us(text, PsiLine::Full), Some(9));
        assert_eq!(total_us(b"some total=x\n", PsiLine::Some), None);
        assert_eq!(total_us(b"some total=1\n", PsiLine::Full), None);
    }

    #[test]
    fn a_broken_line_is_named() {
        let text = format!("{SOME}\nfull avg10=0.00 avg60=x\n");
        assert_eq!(parse(text.as_bytes()).map_err(|e| e.line), Err(2));
        assert!(parse(b"some avg60=1 avg10=1 avg300=1 total=1").is_err());
    }
}
