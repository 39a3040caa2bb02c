//! Files that stay open, for repeated reads of the same files.
//!
//! A read costs a microsecond, and opening a file costs ten microseconds. In addition, an open file
//! of a process never shows a later process with the same id.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::parse;

/// Maximum length of a text in bytes, enough for /proc/stat of a machine with some thousand CPUs.
const WHOLE_MAX: usize = 1 << 20;
/// Bytes requested at once. The kernel writes most of the files read here in one piece.
const PIECE: usize = 16 << 10;

/// A buffer that is reused for each text.
#[derive(Debug, Default)]
pub struct Buffer(Vec<u8>);

/// A file that stays open. A missing file always reads as `None`.
#[derive(Debug, Default)]
pub struct Kept(Option<File>);

impl Kept {
    /// Opens a file, if it exists.
    pub fn open(path: &Path) -> Kept {
        Kept(File::open(path).ok())
    }

    /// Returns true if the file existed.
    pub fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the result of one read call, up to the buffer's length. A short file is read
    /// completely.
    pub fn start<'b>(&self, room: &'b mut [u8]) -> Option<&'b [u8]> {
        let count = self.0.as_ref()?.read_at(room, 0).ok()?;
        room.get(..count)
    }

    /// Makes one read call like [`Kept::start`], into a reused buffer.
    pub fn once<'b>(&self, buffer: &'b mut Buffer) -> Option<&'b [u8]> {
        let text = &mut buffer.0;
        if text.len() < PIECE {
            text.resize(PIECE, 0);
        }
        self.start(text)
    }

    /// Returns a whole file, which the kernel may return in pieces; `None` for an endless file.
    pub fn whole<'b>(&self, buffer: &'b mut Buffer) -> Option<&'b [u8]> {
        let file = self.0.as_ref()?;
        let text = &mut buffer.0;
        let mut length = 0;
        loop {
            if text.len() < length + PIECE {
                text.resize(length + PIECE, 0);
            }
            match file.read_at(text.get_mut(length..)?, length as u64).ok()? {
                0 => return text.get(..length),
                count => length += count,
            }
            if length > WHOLE_MAX {
                return None;
            }
        }
    }

    /// Returns the number in a file that contains only a number.
    pub fn number(&self, buffer: &mut Buffer) -> Option<u64> {
        parse::number(self.once(buffer)?.trim_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_longer_than_a_piece_is_read_whole_and_endless_one_not() {
        let tree = crate::testing::Tree::create();
        let long = "x".repeat(3 * PIECE + 5);
        let path = tree.file("long", &long);
        let mut buffer = Buffer::default();
        let kept = Kept::open(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(kept.whole(&mut buffer).map(<[u8]>::len), Some(long.len()));
        assert!(Kept::open(Path::new("/dev/zero")).whole(&mut buffer).is_none());
        assert!(Kept::default().once(&mut buffer).is_none());
        assert!(!Kept::default().is_open());
    }
}
