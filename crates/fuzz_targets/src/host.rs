//! Targets for small texts: what a daemon before us has written.

use plug::UndoRecord;

/// An undo record: one that is taken is, to the byte, one that we would have written.
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
