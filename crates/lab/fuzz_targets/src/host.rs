//! Targets for small texts that an earlier daemon has written.

use pinheadd::plug::UndoRecord;

/// Reads an undo record. An accepted record must be byte for byte the record that this code would
/// write.
pub(crate) fn undo_record(data: &[u8]) {
    match UndoRecord::parse(data) {
        Ok(record) => {
            assert_eq!(record.to_string().as_bytes(), data);
            assert!(!record.cpus.is_empty(), "to restore no CPU at all would be the guest's end");
        }
        Err(bad) => {
            let lines = data.split(|byte| *byte == b'\n').count();
            assert!((1..=lines + 1).contains(&bad.line), "{bad}");
        }
    }
}
