//! Why bytes are not what they were taken for.

/// Bytes that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The record ends before a field that it must have.
    #[error("{record} has {length} bytes and ends before {field} (bytes {from} to {to})")]
    Short {
        /// What was read.
        record: &'static str,
        /// What was missing.
        field: &'static str,
        /// Where it should be.
        from: usize,
        /// Where it should end.
        to: usize,
        /// What there is.
        length: usize,
    },
    /// Nothing is there, or zeros only.
    #[error("{record} is empty")]
    Empty {
        /// The record's name.
        record: &'static str,
    },
    /// A field says what cannot be.
    #[error("{record}: {field} is {value}, {wanted}")]
    Wrong {
        /// What was read.
        record: &'static str,
        /// Which field.
        field: &'static str,
        /// What it says.
        value: u64,
        /// What would be right.
        wanted: &'static str,
    },
    /// A file of the hypervisor's tree has another text than it should.
    #[error("{file} has `{found}`, {wanted}")]
    Text {
        /// Its path below the tree.
        file: String,
        /// The beginning of its text.
        found: String,
        /// What would be right.
        wanted: &'static str,
    },
    /// The kernel was changing a buffer when it was copied.
    #[error("{record} was being written when it was copied ({one} and {two})")]
    Torn {
        /// What was read.
        record: &'static str,
        /// The count before,
        one: u32,
        /// and the count after a change.
        two: u32,
    },
}
