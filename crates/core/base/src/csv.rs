//! Comma-separated values.

use std::borrow::Cow;

/// The first characters by which a spreadsheet recognises a formula.
const FORMULA: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];

/// Returns an untrusted text as a cell. A text that a spreadsheet would take for a formula gets an
/// apostrophe in front. A negative number stays as it is.
pub fn csv_text(text: &str) -> Cow<'_, str> {
    let is_number = || text.parse().is_ok_and(f64::is_finite);
    match text.starts_with(FORMULA) && !is_number() {
        true => format!("'{text}").into(),
        false => text.into(),
    }
}

/// Adds a record of comma-separated values with its line end (RFC 4180).
pub fn csv_record<T: AsRef<str>>(out: &mut String, cells: impl IntoIterator<Item = T>) {
    for (at, cell) in cells.into_iter().enumerate() {
        let cell = cell.as_ref();
        if at > 0 {
            out.push(',');
        }
        if cell.contains([',', '"', '\r', '\n']) {
            out.push('"');
            out.push_str(&cell.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(cell);
        }
    }
    out.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted() {
        let mut out = String::new();
        csv_record(&mut out, ["a,b", "say \"x\"", "plain", ""]);
        assert_eq!(out, "\"a,b\",\"say \"\"x\"\"\",plain,\r\n");
    }

    #[test]
    fn finding_16_no_text_of_a_guest_is_a_formula() {
        for text in [
            "=1",
            "+A1",
            "-1+cmd|' /C calc'!A0",
            "@SUM(A1)",
            "\t=1",
            "\r=1",
            "\n=1",
            "＝1",
            "＋1",
            "－1",
            "＠A1",
            "-inf",
        ] {
            assert_eq!(csv_text(text), format!("'{text}"));
        }
        for text in ["", "web-1", "a=b", "'=1", "1", "-3", "+0.5e3"] {
            assert_eq!(csv_text(text), text);
        }
    }
}
