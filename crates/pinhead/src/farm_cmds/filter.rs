//! Filter between a guest's console and the terminal that is attached to it.
//!
//! A shell with line editing needs cursor movement and colours. But a guest must not change the
//! terminal's title, clipboard, mouse or keys, and must not make the terminal type for it. The
//! filter therefore passes only the sequences listed here. Text must be UTF-8, because a terminal
//! obeys U+009B like `ESC [`, and a terminal without UTF-8 obeys the byte 0x9b.

use base::is_plain;
use std::io::{self, Write};

/// Maximum number of parameter bytes in a sequence. No terminal uses more.
const PARAMETERS_MAX: usize = 32;
/// Modes that a program in a guest may set. The only such mode is insertion.
const MODES: &[&[u8]] = &[b"4"];
/// Modes with a `?` that may be set: cursor keys, line wrapping, a blinking or hidden cursor.
const PRIVATE_MODES: &[&[u8]] = &[b"1", b"7", b"12", b"25"];
/// Sequence sent when a terminal detaches from a guest. A soft reset comes first. The single modes
/// are reset again, for older terminals without soft reset. The cursor is saved while the scrolling
/// region and the second screen end.
const RESET: &[u8] = b"\x1b[!p\x1b[0m\x1b[4l\x1b[?1l\x1b[?7h\x1b[?12l\x1b[?25h\
    \x1b7\x1b[r\x1b[?1000;1002;1003;1006;2004;1049l\x1b8";

#[derive(Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Text,
    Character(Begun),
    Escape,
    Control(Vec<u8>),
}

/// First bytes of a UTF-8 character that is still incomplete.
#[derive(Debug, Default, PartialEq, Eq)]
struct Begun {
    bytes: [u8; 4],
    count: usize,
}

/// Filter that passes text, cursor movement, erasing and colours.
#[derive(Debug, Default)]
pub struct Filter {
    at: At,
}

impl Filter {
    /// Returns the part of a guest's output that the terminal gets.
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            self.at = match std::mem::take(&mut self.at) {
                At::Text => text(byte, &mut out),
                At::Character(begun) => character(begun, byte, &mut out),
                At::Escape if byte == b'[' => At::Control(Vec::new()),
                // Any other sequence is left out; the bytes after it are shown as text.
                At::Escape => text(byte, &mut out),
                At::Control(parameters) => control(parameters, byte, &mut out),
            };
        }
        out
    }
}

/// Ends all modes that a guest's console has set in a terminal.
pub(super) fn reset(mut terminal: impl Write) -> io::Result<()> {
    terminal.write_all(RESET)?;
    terminal.flush()
}

fn text(byte: u8, out: &mut Vec<u8>) -> At {
    match byte {
        0x1b => return At::Escape,
        b'\n' | b'\r' | b'\t' | 0x07 | 0x08 | 0x20..=0x7e => out.push(byte),
        0..=0x1f | 0x7f => out.push(b'?'),
        0x80..=0xff => return character(Begun::default(), byte, out),
    }
    At::Text
}

/// Handles a byte of a non-ASCII character. The character is passed completely or not at all.
fn character(mut begun: Begun, byte: u8, out: &mut Vec<u8>) -> At {
    begun.bytes[begun.count] = byte;
    begun.count += 1;
    match std::str::from_utf8(&begun.bytes[..begun.count]) {
        Ok(text) if text.chars().all(is_plain) => out.extend_from_slice(text.as_bytes()),
        // These are the control characters U+0080 to U+009F, and characters that reverse or hide
        // text.
        Ok(_) => out.push(b'?'),
        // No character has more than four bytes, so there is room for the next byte.
        Err(error) if error.error_len().is_none() => return At::Character(begun),
        Err(_) => {
            out.push(b'?');
            if begun.count > 1 {
                // This byte does not belong to the incomplete character.
                return text(byte, out);
            }
        }
    }
    At::Text
}

fn control(mut parameters: Vec<u8>, byte: u8, out: &mut Vec<u8>) -> At {
    match byte {
        b'0'..=b'9' | b';' | b'?' if parameters.len() < PARAMETERS_MAX => {
            parameters.push(byte);
            return At::Control(parameters);
        }
        0x1b => return At::Escape,
        _ if is_allowed(&parameters, byte) => {
            out.extend_from_slice(b"\x1b[");
            out.extend_from_slice(&parameters);
            out.push(byte);
        }
        _ => {}
    }
    At::Text
}

/// Returns true if a guest may send this sequence. Allowed sequences move the cursor, erase,
/// insert, scroll, colour, or set one of the listed modes.
fn is_allowed(parameters: &[u8], last: u8) -> bool {
    let (is_private, numbers) = match parameters.strip_prefix(b"?") {
        Some(numbers) => (true, numbers),
        None => (false, parameters),
    };
    let modes = if is_private { PRIVATE_MODES } else { MODES };
    let mut each = numbers.split(|byte| *byte == b';');
    match last {
        _ if numbers.contains(&b'?') => false,
        b'h' | b'l' => each.all(|mode| modes.contains(&mode)),
        _ if is_private => false,
        // A shell may query the terminal's status and cursor position. The response goes to the
        // same guest.
        b'n' => matches!(numbers, b"5" | b"6"),
        // With more parameters this sequence tracks the mouse.
        b'S' | b'T' => each.count() == 1,
        b'@' | b'A'..=b'H' | b'J'..=b'M' | b'P' | b'X' | b'd' | b'f' | b'm' | b'r' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(text: &str) -> String {
        // The result must not depend on how the input is split.
        let mut filter = Filter::default();
        let out: Vec<u8> = text.bytes().flat_map(|byte| filter.pass(&[byte])).collect();
        assert_eq!(out, Filter::default().pass(text.as_bytes()));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn sequences_of_a_shell_are_passed() {
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

    /// All kinds of sequences that begin with a C1 control.
    const C1: [&str; 6] = [
        "\u{9d}52;c;aGk=\u{7}",
        "\u{9d}0;owned\u{7}",
        "\u{9b}21t",
        "\u{90}+q\u{9c}",
        "\u{9f}x\u{9c}",
        "\u{85}\u{84}\u{8d}\u{80}",
    ];

    #[test]
    fn finding_09_utf_8_controls_never_reach_the_terminal() {
        for text in C1 {
            let shown = passed(text);
            assert!(!shown.chars().any(|c| ('\u{80}'..='\u{9f}').contains(&c)), "{shown:?}");
        }
        // The same controls occur as single bytes, for a terminal that does not use UTF-8.
        let bytes: Vec<u8> = (0x80..=0x9f).collect();
        assert_eq!(Filter::default().pass(&bytes), vec![b'?'; 32]);
        assert_eq!(passed("a\u{9b}2Jb\u{202e}c"), "a?2Jb?c");
        // Characters that contain these bytes are text. An incomplete character is not passed.
        assert_eq!(passed("ěř漢字🖥\u{a0}"), "ěř漢字🖥\u{a0}");
        assert_eq!(Filter::default().pass(b"\xe6\xbcx\xf0\x9f\x1b[mA\xc3"), b"?x?\x1b[mA");
        assert_eq!(Filter::default().pass(b"\xc0\x9b\xed\xa0\x80\xff"), b"??????");
    }

    #[test]
    fn finding_09_a_guest_sets_listed_modes_only() {
        for text in ["\x1b[?25l\x1b[?25h", "\x1b[4h", "\x1b[?1h", "\x1b[?7;12l", "\x1b[3T"] {
            assert_eq!(passed(text), text);
        }
        for text in [
            "\x1b[?1000h",
            "\x1b[?1049h",
            "\x1b[?2004h",
            "\x1b[?25;1003h",
            "\x1b[20h",
            "\x1b[1h",
            "\x1b[?4h",
            "\x1b[h",
            "\x1b[?h",
            "\x1b[2?5h",
            "\x1b[?1;1;0S",
            "\x1b[1;2;3;4;5T",
            "\x1b[?25m",
            "\x1b[?15n",
            "\x1b[0n",
            "\x1b[?1r",
            "\x1b[3g",
        ] {
            assert_eq!(passed(text), "", "{text:?}");
        }
    }

    #[test]
    fn finding_09_detaching_ends_every_mode_of_the_terminal() {
        let mut terminal = Vec::new();
        reset(&mut terminal).unwrap();
        let sent = String::from_utf8(terminal).unwrap();
        for mode in PRIVATE_MODES.iter().chain(MODES) {
            let mode = std::str::from_utf8(mode).unwrap();
            let ends = |sequence: &str| {
                let last = if matches!(mode, "7" | "25") { 'h' } else { 'l' };
                let (modes, end) = sequence.split_at(sequence.len().saturating_sub(1));
                end.starts_with(last)
                    && modes.trim_start_matches(['[', '?']).split(';').any(|one| one == mode)
            };
            assert!(sent.split('\x1b').any(ends), "{mode} stays: {sent:?}");
        }
        for left in ["\x1b[!p", "\x1b[0m", "\x1b[r", "1000;", "1003;", "2004;", "1049l"] {
            assert!(sent.contains(left), "{left:?}");
        }
    }
}
