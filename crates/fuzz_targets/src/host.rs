//! Targets for small texts: what the host's kernel and a daemon before us have written.

use plug::UndoRecord;

/// A thread's schedstat: what is read of it says the same when it is written again.
pub(crate) fn schedstat(data: &[u8]) {
    let Some([run, delay]) = farm::fleet::parse_schedstat(data) else { return };
    assert_eq!(
        farm::fleet::parse_schedstat(format!("{run} {delay} 0\n").as_bytes()),
        Some([run, delay])
    );
    let text = String::from_utf8_lossy(data);
    let fields: Vec<_> = text.split_ascii_whitespace().take(2).map(str::parse).collect();
    assert_eq!(fields, [Ok(run), Ok(delay)]);
}

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
