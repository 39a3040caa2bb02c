//! Files as the originals read them: with one call, into 4 KiB.

use procfs::Root;
use std::fs::File;
use std::io::{Read, Result};

/// What is read of a file at most.
const ROOM: usize = 4_095;

/// Room for a file's text, used again for each.
#[derive(Debug)]
pub(crate) struct Text(Box<[u8; ROOM]>);

impl Default for Text {
    fn default() -> Text {
        Text(Box::new([0; ROOM]))
    }
}

impl Text {
    /// The beginning of a file below the root.
    pub(crate) fn read(&mut self, root: &Root, path: &str) -> Result<&[u8]> {
        let count = File::open(root.join(path))?.read(&mut self.0[..])?;
        Ok(&self.0[..count])
    }
}
