//! A value without its white space.

use crate::diag::Span;

/// A text without its white space, with the position of each byte in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text {
    pub(super) bytes: Vec<u8>,
    at: Vec<u32>,
    end: u32,
}

impl Text {
    /// Creates an empty text that starts at that byte of the file.
    pub(super) fn starting(at: usize) -> Text {
        Text { end: at as u32, ..Text::default() }
    }

    pub(super) fn push(&mut self, byte: u8, at: usize) {
        self.bytes.push(byte);
        self.at.push(at as u32);
        self.end = at as u32 + 1;
    }

    pub(super) fn cut(&self, start: usize, end: usize) -> Text {
        let (bytes, at) = (self.bytes[start..end].to_vec(), self.at[start..end].to_vec());
        let after = self.at.get(end).copied().unwrap_or(self.end);
        let end = at.last().map_or(after, |last| last + 1);
        Text { bytes, at, end }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn byte(&self, at: usize) -> u8 {
        self.bytes[at]
    }

    /// Returns the bytes from `start` up to `end`; empty if they are not ASCII.
    pub(crate) fn str(&self, start: usize, end: usize) -> &str {
        std::str::from_utf8(&self.bytes[start..end]).unwrap_or("")
    }

    /// Returns the UTF-8 character at a byte, and its position. Invalid bytes give the replacement
    /// character.
    pub(crate) fn character(&self, at: usize) -> (char, Span) {
        let bytes = &self.bytes[at..self.len().min(at + char::MAX.len_utf8())];
        let found = bytes.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next());
        let length = found.map_or(1, char::len_utf8);
        (found.unwrap_or(char::REPLACEMENT_CHARACTER), self.span(at, at + length))
    }

    pub(crate) fn span(&self, start: usize, end: usize) -> Span {
        match self.at.get(start) {
            None => self.end(),
            Some(&first) => {
                let last = self.at[end.clamp(start + 1, self.len()) - 1];
                Span { start: first, end: last + 1 }
            }
        }
    }

    /// Returns the position just behind the text.
    pub(crate) fn end(&self) -> Span {
        Span { start: self.end, end: self.end + 1 }
    }

    pub(super) fn all(&self) -> Span {
        self.span(0, self.len())
    }
}
