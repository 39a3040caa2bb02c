//! Errors in monitor data.

/// An error in monitor data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The record ends before a field that it must have.
    #[error("{record} has {length} bytes and ends before {field} (bytes {from} to {to})")]
    Short {
        /// Name of the record.
        record: &'static str,
        /// Name of the missing field.
        field: &'static str,
        /// First byte of the field.
        from: usize,
        /// End of the field.
        to: usize,
        /// Length of the record.
        length: usize,
    },
    /// The record is missing, or consists of zeros.
    #[error("{record} is empty")]
    Empty {
        /// Name of the record.
        record: &'static str,
    },
    /// A field has an impossible value.
    #[error("{record}: {field} is {value}, {wanted}")]
    Wrong {
        /// Name of the record.
        record: &'static str,
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: u64,
        /// Description of a valid value.
        wanted: &'static str,
    },
    /// A file of the hypervisor's tree has an invalid text.
    #[error("{file} has `{found}`, {wanted}")]
    Text {
        /// Path of the file below the tree.
        file: String,
        /// Beginning of the text.
        found: String,
        /// Description of a valid text.
        wanted: &'static str,
    },
    /// The kernel was changing a buffer when it was copied.
    #[error("{record} was being written when it was copied ({one} and {two})")]
    Torn {
        /// Name of the record.
        record: &'static str,
        /// Count before a change.
        one: u32,
        /// Count after a change.
        two: u32,
    },
}
