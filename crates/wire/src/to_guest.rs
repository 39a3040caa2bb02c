//! What a host says, as far as it is short.

use crate::body::{Body, Reader, Writer};
use crate::file::File;

/// A host introduces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The guest's memory as the hypervisor gave it, in pages.
    pub memory_pages: u64,
    /// Whether pool requests are answered.
    pub grants: bool,
    /// Whether the host says when to look.
    pub paces: bool,
}

impl Body for Welcome {
    fn write(&self, out: &mut Writer<'_>) {
        out.u64(self.memory_pages);
        out.u8(u8::from(self.grants));
        out.u8(u8::from(self.paces));
    }

    fn read(from: &mut Reader<'_>) -> Option<Welcome> {
        Some(Welcome { memory_pages: from.u64()?, grants: from.flag()?, paces: from.flag()? })
    }
}

/// A host answers a request for a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The request that it answers; 0 for a change that nobody asked for.
    pub sequence: u32,
    /// The size granted, in pages.
    pub pages: u64,
    /// Why it is not what was asked for; empty if it is.
    pub reason: String,
}

impl Body for Grant {
    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.sequence);
        out.u64(self.pages);
        out.text(&self.reason);
    }

    fn read(from: &mut Reader<'_>) -> Option<Grant> {
        Some(Grant { sequence: from.u32()?, pages: from.u64()?, reason: from.text()? })
    }
}

/// A host asks for the text of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Comes back with the chunks.
    pub sequence: u32,
    /// Which file.
    pub file: File,
}

impl Body for Capture {
    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.sequence);
        self.file.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Option<Capture> {
        Some(Capture { sequence: from.u32()?, file: File::read(from)? })
    }
}

/// A host asks how the guest's memory is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Comes back with the answer; not 0, which stands for an answer that nobody asked for.
    pub sequence: u32,
}

impl Body for Sample {
    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.sequence);
    }

    fn read(from: &mut Reader<'_>) -> Option<Sample> {
        Some(Sample { sequence: from.u32()? })
    }
}
