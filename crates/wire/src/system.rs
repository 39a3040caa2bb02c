//! How a guest is as a whole: what is told with the answer to a [`Scan`](crate::Scan).

use crate::body::{Reader, Writer};

/// Stands for what is missing. No counter gets there in the life of a machine.
const MISSING: u64 = u64::MAX;

/// A guest's load, its root file system and its network. Counts are since its boot; what is not
/// known is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct System {
    /// The question that it is told with.
    pub sequence: u32,
    /// The load average of the last minute, in thousandths.
    pub load_1_permille: Option<u64>,
    /// That of five minutes.
    pub load_5_permille: Option<u64>,
    /// That of fifteen minutes.
    pub load_15_permille: Option<u64>,
    /// Tasks that run or could; the daemon is one of them.
    pub running: Option<u64>,
    /// Tasks that wait for storage.
    pub blocked: Option<u64>,
    /// The size of its root file system, in KiB.
    pub root_total_kib: Option<u64>,
    /// What of it is available to everybody, in KiB.
    pub root_available_kib: Option<u64>,
    /// Bytes that came by all interfaces but the loop-back.
    pub received_bytes: Option<u64>,
    /// Packets that came so.
    pub received_packets: Option<u64>,
    /// Bytes that went by them.
    pub sent_bytes: Option<u64>,
    /// Packets that went so.
    pub sent_packets: Option<u64>,
}

impl System {
    const FIELDS: usize = 11;

    /// The numbers in the order in which they are sent.
    fn fields(&mut self) -> [&mut Option<u64>; System::FIELDS] {
        [
            &mut self.load_1_permille,
            &mut self.load_5_permille,
            &mut self.load_15_permille,
            &mut self.running,
            &mut self.blocked,
            &mut self.root_total_kib,
            &mut self.root_available_kib,
            &mut self.received_bytes,
            &mut self.received_packets,
            &mut self.sent_bytes,
            &mut self.sent_packets,
        ]
    }

    pub(crate) fn write(mut self, out: &mut Writer<'_>) {
        out.u32(self.sequence);
        for field in self.fields() {
            out.u64(field.unwrap_or(MISSING));
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Option<System> {
        let mut system = System { sequence: from.u32()?, ..System::default() };
        for field in system.fields() {
            *field = Some(from.u64()?).filter(|value| *value != MISSING);
        }
        Some(system)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_back_missing_and_what_is_cut_not_at_all() {
        let mut sent = System { sequence: 7, ..System::default() };
        for (value, field) in sent.fields().into_iter().enumerate() {
            *field = (value % 3 > 0).then_some(value as u64);
        }
        let mut body = Vec::new();
        sent.write(&mut Writer(&mut body));
        assert_eq!(body.len(), 4 + 8 * System::FIELDS);
        assert_eq!(System::read(&mut Reader::new(&body)), Some(sent));
        for short in 0..body.len() {
            assert_eq!(System::read(&mut Reader::new(&body[..short])), None);
        }
    }
}
