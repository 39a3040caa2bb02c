//! The memory that the guest has given up.

use std::path::Path;

use counters::Pages;
use procfs::Root;

use crate::error::Error;
use crate::fsio::{self, KeptFile};

/// Something that holds pages which the guest does not use: its kernel's CMM pool,
/// or the host that was asked for a balloon.
pub trait Pool {
    /// How many pages it holds now.
    fn size(&mut self) -> Result<Pages, Error>;

    /// Asks for another size. It may be reached later, or never.
    fn request(&mut self, size: Pages) -> Result<(), Error>;
}

/// The pool of the s390x kernel's cooperative memory management.
#[derive(Debug)]
pub struct CmmPool {
    file: KeptFile,
}

impl CmmPool {
    /// The pool below `root`. `None` if the kernel has none, or its module is not
    /// loaded.
    pub fn find(root: &Root) -> Option<CmmPool> {
        let path = root.join("proc/sys/vm/cmm_pages");
        path.exists().then(|| CmmPool { file: KeptFile::new(path) })
    }

    /// The file behind it.
    pub fn path(&self) -> &Path {
        &self.file.path
    }
}

impl Pool for CmmPool {
    /// The kernel takes and gives pages bit by bit after a request; this is what it
    /// has by now.
    fn size(&mut self) -> Result<Pages, Error> {
        let mut text = [0; 32];
        let text = self.file.read(&mut text)?;
        fsio::number(&self.file.path, text).map(Pages)
    }

    fn request(&mut self, size: Pages) -> Result<(), Error> {
        fsio::write_number(&self.file.path, size.0)
    }
}
