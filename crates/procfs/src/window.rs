//! The one buffer that every file is read into, and all rules of reading.
//!
//! A short read is not the end of a kernel file: /proc/vmstat, whose lines are
//! records of their own, hands out at most a page a read, however much is asked
//! for. The end is a read of 0 bytes. That read costs a system call, so it is
//! made only when the parser has not yet found what it wants.

use std::io;

use crate::error::Error;
use crate::file::ProcFile;
use crate::source::Source;

/// Room at the start. The whole of /proc/meminfo, /proc/vmstat and, unless there
/// are many CPUs, the part of /proc/stat that is wanted fit into it.
const START_BYTES: usize = 8 * 1024;

/// No file is read past this: 8192 CPUs with 100 bytes each in /proc/stat stay
/// below it, and a file that never ends must not eat the guest's memory.
pub const MAX_FILE_BYTES: usize = 1024 * 1024;

/// The start of one file, as much of it as was asked for.
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

    /// What has been read of the file so far, from its first byte on.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.room[..self.filled]
    }

    /// Whether the bytes are known to be the whole file.
    pub(crate) fn at_end(&self) -> bool {
        self.at_end
    }

    /// Begins a file with one read of at most `ask` bytes.
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

    /// One more read at the place where the last one ended. The kernel continues a
    /// file exactly there without breaking a line, as long as nobody reads the
    /// same handle elsewhere in between.
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

    /// Reads the rest of the file.
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
