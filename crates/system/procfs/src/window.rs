//! The one buffer for every file, and all rules of reading.
//!
//! A short read is not the end of a kernel file. Each line of /proc/vmstat is a separate record,
//! and one read returns at most a page, for any requested length. Only a read of 0 bytes marks the
//! end. That read costs a system call, so it is made only if the parser needs more bytes.

use std::io;

use crate::error::Error;
use crate::file::ProcFile;
use crate::source::Source;

/// The initial size. The whole of /proc/meminfo and /proc/vmstat fits, and the wanted part of
/// /proc/stat unless there are many CPUs.
const START_BYTES: usize = 8 * 1024;

/// Maximum number of bytes read of a file, because an endless file must not use up the guest's
/// memory. The lines of 8192 CPUs in /proc/stat, with 100 bytes each, stay below the maximum.
pub const MAX_FILE_BYTES: usize = 1024 * 1024;

/// The start of one file, as far as it was requested.
#[derive(Debug)]
pub(crate) struct Window {
    room: Vec<u8>,
    filled: usize,
    at_end: bool,
}

impl Window {
    pub(crate) fn new() -> Window {
        Window { room: vec![0; START_BYTES], filled: 0, at_end: false }
    }

    /// Returns the bytes read so far, from the file's first byte on.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.room[..self.filled]
    }

    /// Returns true if the bytes are known to be the whole file.
    pub(crate) fn at_end(&self) -> bool {
        self.at_end
    }

    /// Starts a file with one read of at most `ask` bytes.
    pub(crate) fn start<S: Source>(
        &mut self,
        source: &mut S,
        file: ProcFile,
        ask: usize,
    ) -> Result<(), Error> {
        self.filled = 0;
        self.at_end = false;
        let ask = ask.clamp(1, self.room.len());
        self.read_once(source, file, ask)
    }

    /// Makes one more read, where the last read ended. The kernel continues at this place without
    /// breaking a line, as long as the same handle is not read at another place meanwhile.
    pub(crate) fn more<S: Source>(&mut self, source: &mut S, file: ProcFile) -> Result<(), Error> {
        if self.at_end {
            return Ok(());
        }
        if self.filled == self.room.len() {
            if self.filled >= MAX_FILE_BYTES {
                let path = source.path(file);
                return Err(Error::TooLarge { path, limit_bytes: MAX_FILE_BYTES });
            }
            self.room.resize((self.room.len() * 2).min(MAX_FILE_BYTES), 0);
        }
        self.read_once(source, file, self.room.len())
    }

    pub(crate) fn finish<S: Source>(
        &mut self,
        source: &mut S,
        file: ProcFile,
    ) -> Result<(), Error> {
        while !self.at_end {
            self.more(source, file)?;
        }
        Ok(())
    }

    fn read_once<S: Source>(
        &mut self,
        source: &mut S,
        file: ProcFile,
        until: usize,
    ) -> Result<(), Error> {
        let gap = &mut self.room[self.filled..until];
        let count = loop {
            match source.read_at(file, gap, self.filled as u64) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(count) => break count.min(gap.len()),
                Err(source_error) => {
                    return Err(Error::Read { path: source.path(file), source: source_error });
                }
            }
        };
        self.filled += count;
        self.at_end = count == 0;
        Ok(())
    }
}
