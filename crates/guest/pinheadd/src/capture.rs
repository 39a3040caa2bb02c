//! Files of this guest that are sent to the host, which explains the guest's rules with values from
//! these files.

use crate::config::Loaded;
use crate::link::Link;
use crate::plug::fsio;
use procfs::Root;
use wire::{Capture, Chunk, MAX_CHUNK, ToHost};

/// Sends the requested file in pieces. A missing file is sent as empty.
pub fn answer(root: &Root, loaded: &Loaded, request: Capture, link: &mut Link) {
    let text = match request.file.path() {
        None => loaded.text.clone(),
        Some(path) => fsio::read(&root.join(path)).unwrap_or_default(),
    };
    let mut offset = 0;
    loop {
        let end = (offset + MAX_CHUNK).min(text.len());
        let last = end == text.len();
        let bytes = text[offset..end].to_vec();
        let Capture { sequence, file } = request;
        let chunk = Chunk { sequence, file, offset: offset as u32, last, bytes };
        // A host that does not read gets only part of the file. The host notices that the last
        // piece is missing.
        if link.send(&ToHost::Chunk(chunk)).is_err() || last {
            return;
        }
        offset = end;
    }
}
