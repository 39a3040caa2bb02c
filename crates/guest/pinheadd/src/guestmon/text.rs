//! Reads of files as in IBM's daemons, with one call for at most 4,095 bytes.

use procfs::Root;
use std::fs::File;
use std::io::{Read, Result};

/// Maximum number of bytes read from a file.
const ROOM: usize = 4_095;

/// Buffer for the text of a file, reused for every file.
#[derive(Debug)]
pub(crate) struct Text(Box<[u8; ROOM]>);

impl Default for Text {
    fn default() -> Text {
        Text(Box::new([0; ROOM]))
    }
}

impl Text {
    pub(crate) fn read(&mut self, root: &Root, path: &str) -> Result<&[u8]> {
        let count = File::open(root.join(path))?.read(&mut self.0[..])?;
        Ok(&self.0[..count])
    }
}
