//! Decoding of keys from a terminal's bytes.
//!
//! crossterm's reader is not used. By its source code, crossterm treats an escape character at the
//! end of a read as the Escape key. It also does not treat a read of 0 bytes as the end of input.
//! This decoder handles slow and closed terminal lines correctly.

/// A key. Filters are typed with plain characters. Every other key is a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    Interrupt,
}

/// Length above which an unfinished sequence is dropped. No known sequence is longer.
const OPEN_MAX: usize = 16;

/// Decoder of keys, which stores an incomplete key until the rest arrives.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    held: Vec<u8>,
}

impl Decoder {
    /// Returns true if a key is incomplete.
    pub(super) fn is_open(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns the keys that these bytes complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        let mut keys = Vec::new();
        self.held.extend_from_slice(bytes);
        let mut at = 0;
        while at < self.held.len() {
            match one(&self.held[at..]) {
                Some((key, length)) => {
                    keys.extend(key);
                    at += length;
                }
                None => break,
            }
        }
        self.held.drain(..at);
        if self.held.len() > OPEN_MAX {
            self.held.clear();
        }
        keys
    }

    /// Ends the input. A single escape character then is the Escape key.
    pub(super) fn finish(&mut self) -> Vec<Key> {
        let is_escape = self.held.first() == Some(&0x1b);
        self.held.clear();
        if is_escape { vec![Key::Escape] } else { Vec::new() }
    }
}

/// Returns the first key and its length. The key is missing if the bytes have no meaning here. The
/// result is `None` if more bytes are needed.
fn one(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let key = match *bytes.first()? {
        0x03 => Key::Interrupt,
        b'\r' | b'\n' => Key::Enter,
        0x7f | 0x08 => Key::Backspace,
        0x1b => return sequence(bytes),
        byte if byte < 0x20 => return Some((None, 1)),
        byte => return character(byte, bytes),
    };
    Some((Some(key), 1))
}

fn character(first: u8, bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let length = match first {
        0..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Some((None, 1)),
    };
    let text = bytes.get(..length)?;
    match std::str::from_utf8(text).ok().and_then(|text| text.chars().next()) {
        Some(c) if !c.is_control() => Some((Some(Key::Char(c)), length)),
        _ => Some((None, 1)),
    }
}

fn sequence(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    match *bytes.get(1)? {
        b'[' => {
            let ends = |byte: &u8| (0x40..=0x7e).contains(byte);
            let end = 2 + bytes[2..].iter().position(ends)?;
            let key = match (&bytes[2..end], bytes[end]) {
                (_, b'A') => Some(Key::Up),
                (_, b'B') => Some(Key::Down),
                (_, b'H') | (b"1" | b"7", b'~') => Some(Key::Home),
                (_, b'F') | (b"4" | b"8", b'~') => Some(Key::End),
                (b"5", b'~') => Some(Key::PageUp),
                (b"6", b'~') => Some(Key::PageDown),
                _ => None,
            };
            Some((key, end + 1))
        }
        b'O' => {
            let key = match *bytes.get(2)? {
                b'A' => Some(Key::Up),
                b'B' => Some(Key::Down),
                b'H' => Some(Key::Home),
                b'F' => Some(Key::End),
                _ => None,
            };
            Some((key, 3))
        }
        _ => Some((Some(Key::Escape), 1)),
    }
}
