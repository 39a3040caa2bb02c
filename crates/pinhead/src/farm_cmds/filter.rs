//! What a guest's console may do to the terminal that is attached to it.
//!
//! A shell with line editing needs a cursor that moves and colours; nothing needs a terminal whose
//! title, clipboard or keys a guest can set, or that is made to type for it.

/// Parameters of a sequence; more are no terminal's.
const PARAMETERS_MAX: usize = 32;

/// Where in a sequence the next byte is.
#[derive(Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Text,
    Escape,
    Control(Vec<u8>),
}

/// Lets text, cursor movement, erasing and colours through.
#[derive(Debug, Default)]
pub(super) struct Filter {
    at: At,
}

impl Filter {
    /// The bytes that the terminal gets of a guest's output.
    pub(super) fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            self.at = match std::mem::take(&mut self.at) {
                At::Text => text(byte, &mut out),
                At::Escape if byte == b'[' => At::Control(Vec::new()),
                // Any other sequence is left out; what follows it is shown as text.
                At::Escape => text(byte, &mut out),
                At::Control(parameters) => control(parameters, byte, &mut out),
            };
        }
        out
    }
}

fn text(byte: u8, out: &mut Vec<u8>) -> At {
    match byte {
        0x1b => return At::Escape,
        b'\n' | b'\r' | b'\t' | 0x07 | 0x08 => out.push(byte),
        0..=0x1f | 0x7f => out.push(b'?'),
        // The bytes of UTF-8; the control characters 0x80 to 0x9f are those only where a terminal
        // is not in UTF-8, and there they are what a sequence begins with.
        0x80..=0xff | 0x20..=0x7e => out.push(byte),
    }
    At::Text
}

fn control(mut parameters: Vec<u8>, byte: u8, out: &mut Vec<u8>) -> At {
    match byte {
        b'0'..=b'9' | b';' | b'?' if parameters.len() < PARAMETERS_MAX => {
            parameters.push(byte);
            return At::Control(parameters);
        }
        // Cursor, erasing, inserting, scrolling, modes, colours, and where the cursor is: a shell
        // asks that, and the answer goes to the guest that asked.
        b'@'
        | b'A'..=b'H'
        | b'J'..=b'M'
        | b'P'
        | b'S'
        | b'T'
        | b'X'
        | b'd'
        | b'f'
        | b'g'
        | b'h'
        | b'l'
        | b'm'
        | b'n'
        | b'r' => {
            out.extend_from_slice(b"\x1b[");
            out.extend_from_slice(&parameters);
            out.push(byte);
        }
        0x1b => return At::Escape,
        _ => {}
    }
    At::Text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(text: &str) -> String {
        // However it is cut into pieces.
        let mut filter = Filter::default();
        let out: Vec<u8> = text.bytes().flat_map(|byte| filter.pass(&[byte])).collect();
        assert_eq!(out, Filter::default().pass(text.as_bytes()));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_shell_can_be_used() {
        for text in ["login: \r\n", "\x1b[6n", "\x1b[1;31mred\x1b[0m", "\x1b[2J\x1b[H", "Grüße"] {
            assert_eq!(passed(text), text);
        }
    }

    #[test]
    fn a_guest_sets_no_title_no_clipboard_and_no_keys() {
        assert_eq!(passed("\x1b]0;title\x07x"), "]0;title\x07x");
        assert_eq!(passed("\x1b]52;c;aGk=\x07"), "]52;c;aGk=\x07");
        assert_eq!(passed("\x1bP+q\x1b\\"), "P+q\\");
        assert_eq!(passed("\x1b[21t\x1b[c\x1b[>c\x1bcx"), "cc".to_owned() + "x");
        assert_eq!(passed("\x0e\x00"), "??");
        let long = format!("\x1b[{}m", "1;".repeat(1000));
        assert!(!passed(&long).contains('\x1b'));
    }
}
