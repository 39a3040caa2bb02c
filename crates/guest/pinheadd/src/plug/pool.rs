//! The memory that the guest has given up.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use base::Pages;
use procfs::Root;

use crate::plug::error::Error;
use crate::plug::fsio;

/// A holder of pages that the guest does not use: its kernel's CMM pool, or the host's balloon.
pub trait Pool {
    /// Returns the number of pages in the pool now.
    fn size(&mut self) -> Result<Pages, Error>;

    /// Requests another size, which may be reached later, or never.
    fn request(&mut self, size: Pages) -> Result<(), Error>;
}

/// The pool of the s390x kernel's cooperative memory management.
#[derive(Debug)]
pub struct CmmPool {
    path: PathBuf,
    /// Kept open, because the file is read in every interval. The file is reopened after a failure.
    open: Option<File>,
}

impl CmmPool {
    /// Finds the pool below `root`. Returns `None` if the kernel has no such pool, or the pool's
    /// module is not loaded.
    pub fn find(root: &Root) -> Option<CmmPool> {
        let path = root.join("proc/sys/vm/cmm_pages");
        path.exists().then_some(CmmPool { path, open: None })
    }

    /// Returns the path of the pool's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn read(&mut self) -> io::Result<([u8; 32], usize)> {
        let file = match &mut self.open {
            Some(file) => file,
            closed => closed.insert(File::open(&self.path)?),
        };
        let mut text = [0; 32];
        loop {
            match file.read_at(&mut text, 0) {
                Ok(count) => return Ok((text, count)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.open = None;
                    return Err(error);
                }
            }
        }
    }
}

impl Pool for CmmPool {
    /// Returns the current size. After a request the kernel moves pages gradually.
    fn size(&mut self) -> Result<Pages, Error> {
        match self.read() {
            Ok((text, count)) => fsio::number(&self.path, &text[..count]).map(Pages),
            Err(source) => Err(Error::Read { path: self.path.clone(), source }),
        }
    }

    fn request(&mut self, size: Pages) -> Result<(), Error> {
        fsio::write_number(&self.path, size.0)
    }
}
