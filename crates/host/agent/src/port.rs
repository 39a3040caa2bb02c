//! The host's end of a daemon's port, bounded in both directions.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use reactor::{Budget, Connection, PollFlags, connect, read_some, write_some};
use wire::{Decoder, Dropped, ToGuest, ToHost};

/// Bytes a second that a guest may send. A status has 150 bytes, and arrives once a second.
const BYTES_A_SECOND: u64 = 32 * 1024;
/// Bytes that a guest may send at once, enough for all its captured files.
const BURST: u64 = 256 * 1024;
/// The minimum cost of a read. A guest that sends single bytes wakes this process for each byte,
/// and each wake-up checks all descriptors. The budget allows sixteen reads a second.
const READ_COST: u64 = 2 * 1024;
/// The cost of a message in addition to its bytes, because some messages cause a QEMU request or a
/// pass. A daemon sends two or three messages a second.
const MESSAGE_COST: u64 = 512;
/// The most bytes that wait for a guest that does not read. Further messages are dropped. Each
/// message is independent, and a later message replaces a dropped message.
const OUT_MAX: usize = 16 * 1024;
/// The most bytes read from one guest in one turn, so that other guests are served too.
const TURN: usize = 8 * 1024;

/// A port with its queues and its budget.
#[derive(Debug)]
pub struct Port {
    stream: Connection,
    decoder: Decoder<ToHost>,
    out: Vec<u8>,
    budget: Budget,
    /// The cost beyond the budget, for a read that contained many messages. Later refills pay this
    /// cost.
    debt: u64,
    /// Turns in which the guest's budget was used up.
    pub floods: u64,
}

impl Port {
    /// Uses this stream, and makes it non-blocking.
    pub fn new(stream: UnixStream, now_ms: u64) -> io::Result<Port> {
        stream.set_nonblocking(true)?;
        Ok(Port {
            stream: stream.into(),
            decoder: Decoder::new(),
            out: Vec::new(),
            budget: Budget::new(BYTES_A_SECOND, BURST, now_ms),
            debt: 0,
            floods: 0,
        })
    }

    /// Connects to the socket of a port without blocking. Returns `WouldBlock` if the socket's
    /// queue is full, or the socket serves another client.
    pub fn connect(path: &Path, now_ms: u64) -> io::Result<Port> {
        Port::new(connect(path)?, now_ms)
    }

    /// Returns the connection to poll.
    pub fn connection(&self) -> &Connection {
        &self.stream
    }

    /// Returns the events to poll for. A guest that has used up its budget is not read, and its
    /// messages wait in the guest's own memory.
    pub fn flags(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        if self.budget.left() > 0 {
            flags |= PollFlags::IN;
        }
        if !self.out.is_empty() {
            flags |= PollFlags::OUT;
        }
        flags
    }

    /// Refills the budget for the elapsed time.
    pub fn refill(&mut self, now_ms: u64) {
        self.budget.refill(now_ms);
        let paid = self.debt.min(self.budget.left());
        self.budget.spend(paid);
        self.debt -= paid;
    }

    /// Reads the guest's bytes, within its budget.
    pub fn receive(&mut self) -> io::Result<()> {
        let mut buffer = [0; TURN];
        let room = TURN.min(usize::try_from(self.budget.left()).unwrap_or(TURN));
        if room == 0 {
            return Ok(());
        }
        let count = read_some(&*self.stream, &mut buffer[..room])?;
        // An empty read is not the guest's fault.
        if count > 0 {
            self.spend(READ_COST.max(count as u64));
        }
        self.decoder.feed(&buffer[..count]);
        Ok(())
    }

    fn spend(&mut self, cost: u64) {
        let had = self.budget.left();
        self.debt = self.debt.saturating_add(cost.saturating_sub(had));
        self.budget.spend(cost);
        self.floods += u64::from(had > 0 && self.budget.left() == 0);
    }

    /// Returns the guest's next message.
    #[allow(clippy::should_implement_trait, reason = "`None` is not the end, so it is no iterator")]
    pub fn next(&mut self) -> Option<ToHost> {
        let message = self.decoder.next()?;
        self.spend(MESSAGE_COST);
        Some(message)
    }

    /// Returns the guest's bytes that were no valid message.
    pub fn dropped(&self) -> Dropped {
        self.decoder.dropped()
    }

    /// Sends a message to the guest, now or when it reads. If too much waits, the message is
    /// dropped.
    pub fn send(&mut self, message: &ToGuest) -> io::Result<()> {
        self.send_all(std::slice::from_ref(message))
    }

    /// Sends messages together.
    pub fn send_all(&mut self, messages: &[ToGuest]) -> io::Result<()> {
        for message in messages {
            if self.out.len() >= OUT_MAX {
                return Ok(());
            }
            wire::encode(message, &mut self.out);
        }
        self.flush()
    }

    /// Sends the waiting bytes, as many as the guest accepts.
    pub fn flush(&mut self) -> io::Result<()> {
        let sent = write_some(&*self.stream, &self.out)?;
        self.out.drain(..sent);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_flood_is_taken_within_its_budget_and_costs_only_itself() {
        let (mut guest, host) = UnixStream::pair().unwrap();
        guest.set_nonblocking(true).unwrap();
        let mut port = Port::new(host, 0).unwrap();
        let mut taken = 0;
        while port.flags().contains(PollFlags::IN) {
            while guest.write(&[0x9D; 4096]).is_ok() {}
            let before = port.budget.left();
            port.receive().unwrap();
            taken += before - port.budget.left();
            assert_eq!(port.next(), None);
        }
        assert_eq!(taken, 262_144);
        assert_eq!(port.floods, 1);
        assert!(port.dropped().bytes >= 262_143);
        // After the refill the port is read again, in the middle of a message.
        port.refill(1000);
        assert_eq!(port.budget.left(), 32_768);
    }

    /// Simulates a guest that writes one piece at a time for a minute, as fast as it is read.
    /// Returns the number of reads, and of messages decoded.
    fn a_minute_of(piece: &[u8]) -> (u64, u64) {
        let (mut guest, host) = UnixStream::pair().unwrap();
        let mut port = Port::new(host, 0).unwrap();
        let (mut reads, mut messages) = (0, 0);
        for now_ms in (0..60_000).step_by(250) {
            port.refill(now_ms);
            while port.flags().contains(PollFlags::IN) {
                guest.write_all(piece).unwrap();
                port.receive().unwrap();
                reads += 1;
                messages += std::iter::from_fn(|| port.next()).count() as u64;
            }
        }
        (reads, messages)
    }

    #[test]
    fn finding_05_single_bytes_on_a_port_cost_no_more_than_blocks() {
        let (bytes, _) = a_minute_of(&[0]);
        let (blocks, _) = a_minute_of(&[0; 2048]);
        println!("{bytes} reads of single bytes in a minute, {blocks} of blocks");
        assert!(bytes <= blocks, "{bytes} single bytes woke the host, {blocks} blocks");
        assert!(bytes <= 128 + 16 * 60);
    }

    #[test]
    fn reads_that_find_nothing_cost_nothing() {
        let (mut guest, host) = UnixStream::pair().unwrap();
        let mut port = Port::new(host, 0).unwrap();
        (0..1000).for_each(|_| port.receive().unwrap());
        let mut bye = Vec::new();
        wire::encode(&ToHost::Bye, &mut bye);
        guest.write_all(&bye).unwrap();
        port.receive().unwrap();
        assert_eq!(port.next(), Some(ToHost::Bye));
    }

    #[test]
    fn finding_05_messages_have_a_budget() {
        let mut requests = Vec::new();
        let one = wire::PoolRequest { sequence: 1, pages: 1 };
        (0..100).for_each(|_| wire::encode(&ToHost::PoolRequest(one), &mut requests));
        let (_, messages) = a_minute_of(&requests);
        println!("{messages} requests for memory in a minute");
        assert!(messages <= 512 + 64 * 60, "{messages} in a minute, each asks QEMU");
    }

    #[test]
    fn a_connection_is_made_or_refused_and_never_waited_for() {
        let path = std::env::temp_dir().join(format!("pinhead-port-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let connect = || Port::connect(&path, 0).map(drop).map_err(|e| e.kind());
        assert_eq!(connect(), Err(io::ErrorKind::NotFound));
        let listener = UnixListener::bind(&path).unwrap();
        let mut port = Port::connect(&path, 0).unwrap();
        port.send(&ToGuest::Look).unwrap();
        let (mut guest, _) = listener.accept().unwrap();
        assert!(guest.read(&mut [0; 64]).unwrap() > 0);
        // No process accepts these clients. As many as fit into the queue wait, and the next client
        // is refused.
        rustix::net::listen(&listener, 1).unwrap();
        let mut kept = Vec::new();
        let refused = loop {
            match Port::connect(&path, 0) {
                Ok(port) => kept.push(port),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop((listener, kept));
        assert_eq!(connect(), Err(io::ErrorKind::ConnectionRefused));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_guest_that_does_not_read_is_not_waited_for() {
        let (_guest, host) = UnixStream::pair().unwrap();
        let mut port = Port::new(host, 0).unwrap();
        for _ in 0..1_000_000 {
            port.send(&ToGuest::Look).unwrap();
        }
        assert!(port.out.len() <= 16_384 + 2_572, "{}", port.out.len());
    }
}
