//! Files of a guest, assembled from their pieces.

use wire::{Chunk, File};

/// The longest file that is accepted from a guest.
const FILE_MAX: usize = 64 * 1024;
/// Time after which an incomplete file is dropped.
const PATIENCE_MS: u64 = 5_000;
/// The most files that are requested from one guest at once, which is twice the number of all
/// files.
const OPEN_MAX: usize = 2 * File::ALL.len();

/// A file of a guest, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The number of the request.
    pub sequence: u32,
    pub file: File,
    /// The file's text; `None` if it did not arrive completely or in time.
    pub bytes: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Open {
    sequence: u32,
    file: File,
    bytes: Vec<u8>,
    since_ms: u64,
}

/// The requested files of one guest.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    open: Vec<Open>,
    last: u32,
}

impl Captures {
    /// Starts a file; `None` while too many are open.
    pub(crate) fn begin(&mut self, file: File, now_ms: u64) -> Option<u32> {
        if self.open.len() >= OPEN_MAX {
            return None;
        }
        self.last = self.last.wrapping_add(1);
        let open = Open { sequence: self.last, file, bytes: Vec::new(), since_ms: now_ms };
        self.open.push(open);
        Some(self.last)
    }

    /// Handles a piece. Pieces arrive in order. A piece out of order ends its file.
    pub(crate) fn take(&mut self, chunk: &Chunk) -> Option<Captured> {
        let place = self.open.iter().position(|o| o.sequence == chunk.sequence)?;
        let open = &mut self.open[place];
        let fits = chunk.file == open.file
            && chunk.offset as usize == open.bytes.len()
            && open.bytes.len() + chunk.bytes.len() <= FILE_MAX;
        if fits {
            open.bytes.extend_from_slice(&chunk.bytes);
            if !chunk.last {
                return None;
            }
        }
        let open = self.open.swap_remove(place);
        let bytes = fits.then_some(open.bytes);
        Some(Captured { sequence: open.sequence, file: open.file, bytes })
    }

    /// Ends a file that has not arrived in time.
    pub(crate) fn expire(&mut self, now_ms: u64) -> Option<Captured> {
        let late = |o: &Open| now_ms.saturating_sub(o.since_ms) > PATIENCE_MS;
        let place = self.open.iter().position(late)?;
        let open = self.open.swap_remove(place);
        Some(Captured { sequence: open.sequence, file: open.file, bytes: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(sequence: u32, offset: u32, last: bool, bytes: &[u8]) -> Chunk {
        Chunk { sequence, file: File::Stat, offset, last, bytes: bytes.to_vec() }
    }

    #[test]
    fn pieces_make_a_file_and_misfits_end_it() {
        let mut captures = Captures::default();
        let first = captures.begin(File::Stat, 0).unwrap();
        assert_eq!(captures.take(&chunk(first, 0, false, b"ab")), None);
        let done = captures.take(&chunk(first, 2, true, b"c")).unwrap();
        assert_eq!(done.bytes.as_deref(), Some(&b"abc"[..]));

        let second = captures.begin(File::Stat, 0).unwrap();
        assert_eq!(captures.take(&chunk(99, 0, true, b"not asked for")), None);
        let broken = captures.take(&chunk(second, 7, true, b"c")).unwrap();
        assert_eq!(broken.bytes, None);
        assert_eq!(captures.take(&chunk(second, 0, true, b"too late")), None);
    }

    #[test]
    fn an_endless_or_a_silent_guest_is_given_up() {
        let mut captures = Captures::default();
        let first = captures.begin(File::Stat, 0).unwrap();
        let mut at = 0;
        let broken = loop {
            if let Some(done) = captures.take(&chunk(first, at, false, &[0; 2048])) {
                break done;
            }
            at += 2048;
        };
        assert_eq!((broken.bytes, at), (None, 65_536));

        captures.begin(File::Stat, 0).unwrap();
        assert_eq!(captures.expire(5_000), None);
        assert!(captures.expire(5_001).is_some_and(|c| c.bytes.is_none()));
        while captures.begin(File::Stat, 0).is_some() {}
        assert_eq!(captures.open.len(), OPEN_MAX);
    }
}
