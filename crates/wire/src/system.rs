//! How a guest is as a whole: what is told with the answer to a [`Scan`](crate::Scan).

use crate::body::body;

body! {
    /// A guest's load, its root file system and its network. Counts are since its boot; what is not
    /// known is `None`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct System {
        /// The question that it is told with.
        pub sequence: u32;
        numbers:
        /// The load average of the last minute, in thousandths.
        load_1_permille;
        /// That of five minutes.
        load_5_permille;
        /// That of fifteen minutes.
        load_15_permille;
        /// Tasks that run or could; the daemon is one of them.
        running;
        /// Tasks that wait for storage.
        blocked;
        /// The size of its root file system, in KiB.
        root_total_kib;
        /// What of it is available to everybody, in KiB.
        root_available_kib;
        /// Bytes that came by all interfaces but the loop-back.
        received_bytes;
        /// Packets that came so.
        received_packets;
        /// Bytes that went by them.
        sent_bytes;
        /// Packets that went so.
        sent_packets;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{Body, Reader, Writer};

    #[test]
    fn what_is_missing_comes_back_missing_and_what_is_cut_not_at_all() {
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
