//! XDR, as far as the protocol uses it: big-endian words, and bytes padded to words.

use crate::Error;

/// Reads the body of one message.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// The name of the body, for errors.
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(body: &'a [u8], what: &'static str) -> Reader<'a> {
        Reader { rest: body, what }
    }

    pub(crate) fn wrong(&self, member: &'static str) -> Error {
        Error::Body { what: self.what, member }
    }

    fn take<const N: usize>(&mut self, member: &'static str) -> Result<[u8; N], Error> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(self.wrong(member))?;
        self.rest = rest;
        Ok(*bytes)
    }

    pub(crate) fn u32(&mut self, member: &'static str) -> Result<u32, Error> {
        self.take(member).map(u32::from_be_bytes)
    }

    pub(crate) fn i32(&mut self, member: &'static str) -> Result<i32, Error> {
        self.take(member).map(i32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self, member: &'static str) -> Result<u64, Error> {
        self.take(member).map(u64::from_be_bytes)
    }

    /// Reads a fixed number of bytes, a multiple of the word size.
    pub(crate) fn fixed<const N: usize>(&mut self, member: &'static str) -> Result<[u8; N], Error> {
        const { assert!(N.is_multiple_of(4), "padding is not read here") };
        self.take(member)
    }

    /// Reads the number of items that follow. Nothing is allocated before the items are read.
    pub(crate) fn count(&mut self, member: &'static str, max: usize) -> Result<usize, Error> {
        let count = usize::try_from(self.u32(member)?).unwrap_or(usize::MAX);
        if count > max { Err(self.wrong(member)) } else { Ok(count) }
    }

    /// Reads text of at most `max` bytes.
    pub(crate) fn text(&mut self, member: &'static str, max: usize) -> Result<&'a str, Error> {
        let length = self.count(member, max)?;
        let padded = length.next_multiple_of(4);
        let (bytes, rest) = self.rest.split_at_checked(padded).ok_or(self.wrong(member))?;
        self.rest = rest;
        std::str::from_utf8(&bytes[..length]).map_err(|_| self.wrong(member))
    }

    /// Reads an optional value. The word before the value is 1 if the value is present.
    pub(crate) fn optional<T>(
        &mut self,
        member: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match self.u32(member)? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(self.wrong(member)),
        }
    }

    /// Checks that nothing follows: a body with more bytes is of another type.
    pub(crate) fn end(self) -> Result<(), Error> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.wrong("(end)")) }
    }
}

/// Writes a body.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend(value.to_be_bytes());
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.bytes.extend(value.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend(value.to_be_bytes());
    }

    /// Writes a text. Its length fits a word, because the text is a constant or was read with a
    /// bound.
    pub(crate) fn text(&mut self, text: &str) {
        self.u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.bytes.extend(text.as_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_are_read_back() {
        let mut writer = Writer::default();
        writer.u32(7);
        writer.i32(-1);
        writer.u64(u64::MAX - 1);
        writer.text("abcde");
        assert_eq!(writer.bytes.len(), 4 + 4 + 8 + 4 + 8);
        let mut reader = Reader::new(&writer.bytes, "test");
        assert_eq!(reader.u32("a"), Ok(7));
        assert_eq!(reader.i32("b"), Ok(-1));
        assert_eq!(reader.u64("c"), Ok(u64::MAX - 1));
        assert_eq!(reader.text("d", 5), Ok("abcde"));
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn lengths_are_believed_only_as_far_as_there_are_bytes() {
        let wrong = Err(Error::Body { what: "test", member: "a" });
        let body = [0xff, 0xff, 0xff, 0xff, b'a'];
        assert_eq!(Reader::new(&body, "test").text("a", usize::MAX), wrong);
        let body = [0, 0, 0, 5, b'a', b'b', b'c', b'd', b'e'];
        assert_eq!(Reader::new(&body, "test").text("a", 5), wrong, "no padding");
        assert_eq!(Reader::new(&body, "test").text("a", 4), wrong, "too long");
        let body = [0, 0, 0, 4, 0xff, b'b', b'c', b'd'];
        assert_eq!(Reader::new(&body, "test").text("a", 4), wrong, "not UTF-8");
    }
}
