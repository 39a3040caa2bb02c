//! What a guest says on its console, as far as that is kept.

use vm::CONSOLE_BYTES_MAX;

/// The last words of a console. They come from the guest: escape them.
#[derive(Debug, Default)]
pub(super) struct ConsoleLog {
    kept: Vec<u8>,
    /// How much it has said in all.
    end: u64,
}

impl ConsoleLog {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        self.end += bytes.len() as u64;
        let extra = self.kept.len().saturating_sub(CONSOLE_BYTES_MAX);
        self.kept.drain(..extra);
    }

    pub(super) fn kept(&self) -> &[u8] {
        &self.kept
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// What it has said since it had said `from` bytes, as far as that is kept.
    pub(super) fn since(&self, from: u64) -> &[u8] {
        let behind = usize::try_from(self.end.saturating_sub(from)).unwrap_or(usize::MAX);
        &self.kept[self.kept.len() - behind.min(self.kept.len())..]
    }
}
