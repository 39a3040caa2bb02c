//! Records of mon_fsstatd: a guest's file systems, once a minute.

use crate::layout::{Layout, record};
use crate::monwriter::{DATA_MAX, Function, Head, Series, Stamp};
use crate::{Error, texts};

/// Application number of mon_fsstatd.
pub const APPLICATION: u16 = 1;
/// Possible lengths of a write, head included. The first length is used if the data fit, and
/// otherwise the second length.
pub const BYTES: [usize; 2] = [602, DATA_MAX];

record! {
    /// Fields of statvfs.
    Numbers, 72, {
        block_bytes: u64 = 0;
        fragment_bytes: u64 = 8;
        blocks: u64 = 16;
        free: u64 = 24;
        available: u64 = 32;
        files: u64 = 40;
        files_free: u64 = 48;
        files_available: u64 = 56;
        flags: u64 = 64;
    }
}

/// A mounted file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSystem {
    /// Device, directory and type.
    pub texts: [Vec<u8>; 3],
    /// Fields of statvfs.
    pub numbers: Numbers,
}

impl FileSystem {
    /// Reads the data after the head.
    pub fn read(data: &[u8]) -> Result<(Stamp, FileSystem), Error> {
        let (stamp, data) = Stamp::split(data)?;
        let (texts, rest) = texts::read(data, "FileSystem")?;
        Ok((stamp, FileSystem { texts, numbers: Numbers::read(rest)? }))
    }

    /// Returns a whole write to the device. File systems are identified by their place in a series.
    pub fn write(&self, seconds: u64, systems: &mut Series) -> Vec<u8> {
        let mut data = Vec::new();
        let most = DATA_MAX - Head::BYTES - Stamp::BYTES - Numbers::BYTES;
        texts::write(&self.texts, most, &mut data);
        data.extend(self.numbers.bytes());
        let is_long = Head::BYTES + Stamp::BYTES + data.len() > BYTES[0];
        let least = BYTES[usize::from(is_long)] - Head::BYTES;
        Head::of(Function::Start, APPLICATION, 0, systems.next(is_long))
            .with(&Stamp::with(seconds, &data, least))
    }
}
