//! Detection of foreign text encodings, which pinhead does not read.

/// A file with more than one zero in this number of bytes counts as UTF-16. In UTF-16, usually
/// every second byte is zero.
const ZEROS_OF: usize = 4;

/// Returns the foreign encoding that a text seems to have, and how to convert it to UTF-8.
pub fn foreign_encoding(text: &[u8]) -> Option<(&'static str, &'static str)> {
    let count = |is: fn(&u8) -> bool| text.iter().filter(|byte| is(byte)).count();
    let has_mark = text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff");
    if has_mark || count(|byte| *byte == 0) * ZEROS_OF > text.len() {
        let help = "save it as UTF-8, or convert it: iconv -f UTF-16 -t UTF-8";
        let message = "The file is not ASCII or UTF-8 text: it contains zero bytes, like UTF-16";
        return Some((message, help));
    }
    // In EBCDIC, letters and digits are bytes above all characters of ASCII.
    if count(|byte| *byte >= 0x80) * 2 > text.len() && std::str::from_utf8(text).is_err() {
        let help = "transfer it as text, or convert it: iconv -f IBM-1047 -t UTF-8";
        return Some(("The file is not ASCII or UTF-8 text: it looks like EBCDIC", help));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::foreign_encoding;

    #[test]
    fn report_g09_other_encodings_are_named() {
        let named = |text: &[u8]| foreign_encoding(text).map(|(message, _)| message);
        let utf_16 =
            |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        assert!(named(&utf_16("UPDATE=\"1\"\n")).is_some_and(|name| name.contains("UTF-16")));
        assert!(named(b"\xfe\xff\x4e\x00").is_some_and(|name| name.contains("UTF-16")));
        // The line UPDATE=1 in EBCDIC code page 1047.
        let ebcdic = b"\xe4\xd7\xc4\xc1\xe3\xc5\x7e\xf1\x15";
        assert!(named(ebcdic).is_some_and(|name| name.contains("EBCDIC")));
        for text in ["", "UPDATE=\"1\"\n", "# \u{4e00}\u{4e8c}\u{4e09}\n", "a\0b = 1\n"] {
            assert_eq!(named(text.as_bytes()), None, "{text}");
        }
        // A comment in Latin-1 is accepted.
        assert_eq!(named(b"# f\xfcr zwei CPUs\n"), None);
    }
}
