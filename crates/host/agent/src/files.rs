//! Files of a guest, assembled from their pieces.

use wire::{Capture, Chunk, File};

/// Maximum length of a file from a guest, in bytes.
const FILE_MAX: usize = 64 * 1024;
/// Time after which an incomplete file is dropped.
const PATIENCE_MS: u64 = 5_000;
/// Maximum number of open requests for files to one guest: two requests for each file.
const OPEN_MAX: usize = 2 * File::ALL.len();

/// Files of a guest that were requested together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Number of the request.
    pub number: u32,
    /// Text of each file that arrived completely and in time.
    pub files: Vec<(File, Vec<u8>)>,
}

#[derive(Debug)]
struct Open {
    /// Number of the request for all files.
    number: u32,
    /// Number of the request for this file.
    sequence: u32,
    file: File,
    bytes: Vec<u8>,
    since_ms: u64,
}

/// The requested files of one guest.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    open: Vec<Open>,
    /// Requests with files that have not arrived yet.
    begun: Vec<Captured>,
    last: u32,
}

impl Captures {
    /// Starts a request for all files. Returns its number and one request for each file, to be
    /// sent. Returns `None` while too many files are open.
    pub(crate) fn begin(&mut self, now_ms: u64) -> Option<(u32, Vec<Capture>)> {
        if self.open.len() + File::ALL.len() > OPEN_MAX {
            return None;
        }
        let number = self.last.wrapping_add(1);
        let requests = File::ALL.iter().map(|file| {
            self.last = self.last.wrapping_add(1);
            let (sequence, file, bytes) = (self.last, *file, Vec::new());
            self.open.push(Open { number, sequence, file, bytes, since_ms: now_ms });
            Capture { sequence, file }
        });
        let requests = requests.collect();
        self.begun.push(Captured { number, files: Vec::new() });
        Some((number, requests))
    }

    /// Handles a piece. Pieces arrive in order. The file of a piece out of order is given up.
    /// Returns the files of a request once each file is complete or given up.
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
        self.end(place, fits)
    }

    /// Gives up files that have not arrived in time. Returns the files of a request that is then
    /// over.
    pub(crate) fn expire(&mut self, now_ms: u64) -> Option<Captured> {
        let late = |o: &Open| now_ms.saturating_sub(o.since_ms) > PATIENCE_MS;
        loop {
            let place = self.open.iter().position(late)?;
            if let Some(captured) = self.end(place, false) {
                return Some(captured);
            }
        }
    }

    fn end(&mut self, place: usize, is_whole: bool) -> Option<Captured> {
        let Open { number, file, bytes, .. } = self.open.swap_remove(place);
        let begun = self.begun.iter().position(|captured| captured.number == number)?;
        if is_whole {
            self.begun[begun].files.push((file, bytes));
        }
        let is_over = self.open.iter().all(|open| open.number != number);
        is_over.then(|| self.begun.swap_remove(begun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(sequence: u32, offset: u32, last: bool, bytes: &[u8]) -> Chunk {
        let file = File::ALL[(sequence as usize - 1) % File::ALL.len()];
        Chunk { sequence, file, offset, last, bytes: bytes.to_vec() }
    }

    #[test]
    fn pieces_make_files_and_misfits_end_theirs() {
        let mut captures = Captures::default();
        let (number, requests) = captures.begin(0).unwrap();
        let (first, others) = requests.split_first().unwrap();
        let (second, others) = others.split_first().unwrap();
        assert_eq!(captures.take(&chunk(first.sequence, 0, false, b"ab")), None);
        assert_eq!(captures.take(&chunk(first.sequence, 2, true, b"c")), None);
        assert_eq!(captures.take(&chunk(99, 0, true, b"not asked for")), None);
        assert_eq!(captures.take(&chunk(second.sequence, 7, true, b"c")), None);
        assert_eq!(captures.take(&chunk(second.sequence, 0, true, b"too late")), None);
        let ends = others.iter().map(|one| captures.take(&chunk(one.sequence, 0, true, b"")));
        let ends: Vec<_> = ends.collect();
        let (last, before) = ends.split_last().unwrap();
        assert!(before.iter().all(Option::is_none), "some files are missing");
        let captured = last.clone().unwrap();
        assert_eq!((captured.number, captured.files.len()), (number, File::ALL.len() - 1));
        assert_eq!(captured.files[0], (first.file, b"abc".to_vec()));
        assert!(captured.files.iter().all(|(file, _)| *file != second.file), "misfit");
    }

    #[test]
    fn endless_file_and_silent_guest_are_given_up() {
        let mut captures = Captures::default();
        let (number, requests) = captures.begin(0).unwrap();
        let mut at = 0;
        let is_open = |captures: &Captures| captures.open.iter().any(|open| open.sequence == 1);
        while is_open(&captures) {
            assert_eq!(captures.take(&chunk(requests[0].sequence, at, false, &[0; 2048])), None);
            at += 2048;
        }
        assert_eq!(at, 65_536 + 2048);

        assert_eq!(captures.expire(5_000), None);
        let late = captures.expire(5_001).unwrap();
        assert_eq!((late.number, late.files.len()), (number, 0));
        assert_eq!(captures.expire(5_001), None);
        assert!(captures.begin(0).is_some() && captures.begin(0).is_some());
        assert!(captures.begin(0).is_none(), "too many are open");
    }
}
