//! Reads of files as in IBM's daemons: one call reads at most 4 KiB.

use procfs::Root;
use std::fs::File;
use std::io::{Read, Result};

/// Maximum length read of a file.
const ROOM: usize = 4_095;

/// Buffer for a file's text, reused for each.
#[derive(Debug)]
pub(crate) struct Text(Box<[u8; ROOM]>);

impl Default for Text {
    fn default() -> Text {
        Text(Box::new([0; ROOM]))
    }
}

impl Text {
    /// Reads the start of a file below the root.
    pub(crate) fn read(&mut self, root: &Root, path: &str) -> Result<&[u8]> {
        let count = File::open(root.join(path))?.read(&mut self.0[..])?;
        Ok(&self.0[..count])
    }
}
