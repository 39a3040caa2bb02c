//! Comma-separated values.

/// Adds a record of comma-separated values with its end (RFC 4180).
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
}
