//! The state of a guest as a whole, sent with the response to a [`Scan`](crate::Scan).

use crate::body::body;

body! {
    /// A guest's load, its root file system and its network. Counts are since the guest's boot;
    /// `None` if unknown.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct System {
        /// The number of the answered request.
        pub sequence: u32;
        numbers:
        /// The load average of the last minute, in thousandths.
        load_1_permille;
        /// The load average of five minutes.
        load_5_permille;
        /// The load average of fifteen minutes.
        load_15_permille;
        /// Running and runnable tasks; the daemon is one of them.
        running;
        /// Tasks that wait for storage.
        blocked;
        /// The size of the root file system, in KiB.
        root_total_kib;
        /// The part of the root file system that is available to any user, in KiB.
        root_available_kib;
        /// Bytes received on all interfaces but the loopback.
        received_bytes;
        /// Packets received on these interfaces.
        received_packets;
        /// Bytes sent on these interfaces.
        sent_bytes;
        /// Packets sent on these interfaces.
        sent_packets;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{Body, Reader, Writer};

    #[test]
    fn missing_number_stays_missing_and_cut_body_is_refused() {
        let mut sent = System { sequence: 7, ..System::default() };
        for (value, field) in sent.numbers().into_iter().enumerate() {
            *field = (value % 3 > 0).then_some(value as u64);
        }
        let mut body = Vec::new();
        sent.write(&mut Writer(&mut body));
        assert_eq!(body.len(), 4 + 8 * System::NUMBERS);
        assert_eq!(System::read(&mut Reader::new(&body)), Some(sent));
        for short in 0..body.len() {
            assert_eq!(System::read(&mut Reader::new(&body[..short])), None);
        }
    }
}
