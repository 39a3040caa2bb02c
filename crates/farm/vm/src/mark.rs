//! Search for the end of a command in the bytes from a guest's control port, which arrive in
//! pieces.

/// First bytes of the end mark. A command's own output has no reason to contain the byte 1.
const MARK: &[u8] = b"\x01done ";
/// Maximum number of bytes from the mark to the end of its line: a sign, an exit status of three
/// digits, and the newline.
const CODE_MAX: usize = 5;

/// The search for one command's end.
#[derive(Debug, Default)]
pub struct Mark {
    /// Last bytes received, if they may be the beginning of the mark.
    held: Vec<u8>,
}

/// Result of feeding one piece.
#[derive(Debug, PartialEq, Eq)]
pub struct Fed {
    /// Output of the command.
    pub text: Vec<u8>,
    /// End of the command, if this piece contained it. The inner `None` means an end without a
    /// status.
    pub end: Option<Option<i32>>,
    /// Number of the piece's bytes that belong to this command.
    pub used: usize,
}

impl Mark {
    /// Feeds the next piece.
    pub fn feed(&mut self, piece: &[u8]) -> Fed {
        let before = self.held.len();
        self.held.extend_from_slice(piece);
        let mut from = 0;
        while let Some(at) = self.held[from..].iter().position(|byte| *byte == MARK[0]) {
            let at = from + at;
            let rest = &self.held[at..];
            let known = rest.len().min(MARK.len());
            from = at + 1;
            if rest[..known] != MARK[..known] {
                continue;
            }
            let code = &rest[known..];
            match code.iter().take(CODE_MAX).position(|byte| *byte == b'\n') {
                Some(line_end) => {
                    let digits = std::str::from_utf8(&code[..line_end]).ok();
                    let status = digits.and_then(|digits| digits.parse().ok());
                    let used = (at + known + line_end + 1).saturating_sub(before);
                    let text = self.held[..at].to_vec();
                    self.held.clear();
                    return Fed { text, end: Some(status), used };
                }
                None if code.len() < CODE_MAX => {
                    let text = self.held.drain(..at).collect();
                    return Fed { text, end: None, used: piece.len() };
                }
                None => {}
            }
        }
        Fed { text: std::mem::take(&mut self.held), end: None, used: piece.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_found_however_it_is_cut() {
        let whole = b"out\x01put\x01done x\x01done 7\nstray";
        for cut in 0..whole.len() - 5 {
            let mut mark = Mark::default();
            let first = mark.feed(&whole[..cut]);
            let second = mark.feed(&whole[cut..]);
            let mut text = first.text;
            text.extend(second.text);
            assert_eq!(first.end, None);
            assert_eq!(text, b"out\x01put\x01done x", "cut at {cut}");
            assert_eq!((second.end, second.used), (Some(Some(7)), whole.len() - 5 - cut));
        }
    }

    #[test]
    fn other_bytes_are_text_and_a_mark_without_status_is_an_end() {
        let mut mark = Mark::default();
        assert_eq!(mark.feed(b"a\x01b").text, b"a\x01b");
        assert_eq!(mark.feed(b"\x01done 123456\n").text, b"\x01done 123456\n");
        assert_eq!(mark.feed(b"\x01done ??\n").end, Some(None));
    }
}
