//! Data written to /dev/monwriter: a head of 13 bytes, and data of the length in the head.

use crate::Error;
use crate::layout::{Layout, record};

/// Maximum length of the data.
pub const DATA_MAX: usize = 4_010;

record! {
    /// Head of a write. The device compares the length in the head with the length of the write.
    Head, 13, {
        /// Function to perform.
        function: u8 = 0;
        /// Application: 1 for file systems, 2 for processes.
        application: u16 = 1;
        record: u8 = 3;
        version: u16 = 4;
        release: u16 = 6;
        modification: u16 = 8;
        data_bytes: u16 = 10;
        head_bytes: u8 = 12;
    }
}

/// Function on a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Function {
    /// CP copies the buffer at each interval from now on.
    Start = 0,
    /// CP stops copying the buffer.
    Stop = 1,
    /// CP copies the buffer once, now.
    Event = 2,
    /// Like `Start`, for data that do not change.
    Configuration = 3,
}

impl Head {
    /// Returns a head for some data.
    pub fn of(function: Function, application: u16, record: u8, modification: u16) -> Head {
        Head {
            function: function as u8,
            application,
            record,
            modification,
            head_bytes: Head::BYTES as u8,
            ..Head::default()
        }
    }

    /// Returns a whole write: this head and its data, cut at the device's limit.
    pub fn with(mut self, data: &[u8]) -> Vec<u8> {
        let data = &data[..data.len().min(DATA_MAX)];
        self.data_bytes = data.len() as u16;
        [self.bytes().as_slice(), data].concat()
    }

    /// Reads a head with its data, and returns the rest.
    pub fn split(bytes: &[u8]) -> Result<(Head, &[u8], &[u8]), Error> {
        let head = Head::read(bytes)?;
        let wrong =
            |field, value: u64, wanted| Error::Wrong { record: "Head", field, value, wanted };
        if usize::from(head.head_bytes) != Head::BYTES {
            return Err(wrong("head_bytes", head.head_bytes.into(), "a head has 13"));
        }
        let length = usize::from(head.data_bytes);
        if length > DATA_MAX {
            return Err(wrong("data_bytes", length as u64, "the device takes 4,010"));
        }
        let short = Error::Short {
            record: "Head",
            field: "its data",
            from: Head::BYTES,
            to: Head::BYTES + length,
            length: bytes.len(),
        };
        let (data, rest) = bytes[Head::BYTES..].split_at_checked(length).ok_or(short)?;
        Ok((head, data, rest))
    }
}

/// Modification numbers of similar records, allocated in order: even numbers for short records, and
/// odd numbers for long records. A buffer of the device never changes its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Series {
    short: u16,
    long: u16,
}

impl Series {
    /// Returns the number of records.
    pub fn count(self) -> u16 {
        self.short.saturating_add(self.long)
    }

    /// Returns the modification number of a further record.
    pub fn next(&mut self, is_long: bool) -> u16 {
        let count = if is_long { &mut self.long } else { &mut self.short };
        let modification = modification(*count, is_long);
        *count = count.saturating_add(1);
        modification
    }

    /// Returns the writes that stop those records of an earlier series that this series lacks.
    pub fn ends(
        self,
        before: Series,
        application: u16,
        record: u8,
    ) -> impl Iterator<Item = Vec<u8>> {
        let short = (self.short..before.short).map(|number| modification(number, false));
        let long = (self.long..before.long).map(|number| modification(number, true));
        short.chain(long).map(move |modification| {
            Head::of(Function::Stop, application, record, modification).with(&[])
        })
    }
}

fn modification(number: u16, is_long: bool) -> u16 {
    number.saturating_mul(2).saturating_add(is_long.into())
}

record! {
    /// Start of the data of mon_procd and mon_fsstatd.
    Stamp, 12, {
        /// Seconds since 1970.
        seconds: u64 = 0;
        data_bytes: u16 = 8;
        /// Offset of the data, after this stamp.
        data_at: u16 = 10;
    }
}

impl Stamp {
    /// Reads data that begin with a stamp.
    pub fn split(bytes: &[u8]) -> Result<(Stamp, &[u8]), Error> {
        let stamp = Stamp::read(bytes)?;
        let (from, length) = (usize::from(stamp.data_at), usize::from(stamp.data_bytes));
        let data = bytes.get(from..).and_then(|rest| rest.get(..length));
        let short = Error::Short {
            record: "Stamp",
            field: "its data",
            from,
            to: from + length,
            length: bytes.len(),
        };
        Ok((stamp, data.ok_or(short)?))
    }

    /// Returns data with their stamp, padded with zeros to a minimum length.
    pub fn with(seconds: u64, data: &[u8], least: usize) -> Vec<u8> {
        let data = &data[..data.len().min(DATA_MAX - Stamp::BYTES)];
        let stamp = Stamp { seconds, data_bytes: data.len() as u16, data_at: Stamp::BYTES as u16 };
        let mut bytes = [stamp.bytes().as_slice(), data].concat();
        let length = bytes.len().max(least.min(DATA_MAX));
        bytes.resize(length, 0);
        bytes
    }
}
