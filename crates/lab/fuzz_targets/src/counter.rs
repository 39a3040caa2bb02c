//! Targets for the crate `counters`.

use model::counters::History;

/// Checks the ring against a simple model: a list with the newest row in front.
///
/// The first two bytes give the ring's width and length. Each further byte is one call.
pub(crate) fn history(data: &[u8]) {
    let [width, intervals, calls @ ..] = data else { return };
    let (width, intervals) = (usize::from(width % 4) + 1, usize::from(intervals % 8));
    let mut ring = History::new(width, intervals);
    let mut model: Vec<Vec<Option<f64>>> = Vec::new();
    for call in calls {
        match call {
            0 => {
                ring.clear();
                model.clear();
            }
            1 => {
                ring.retract();
                if !model.is_empty() {
                    model.remove(0);
                }
            }
            byte => {
                let slot = usize::from(*byte) % width;
                let value = f64::from(*byte);
                ring.advance()[slot] = value;
                let mut row = vec![None; width];
                row[slot] = Some(value);
                model.insert(0, row);
                model.truncate(intervals + 1);
            }
        }
        assert_eq!(ring.filled(), model.len());
        assert_eq!(ring.is_full(), model.len() == intervals + 1);
        for age in 0..intervals + 2 {
            for slot in 0..width + 1 {
                let expected = model.get(age).and_then(|row| row.get(slot)).copied().flatten();
                assert_eq!(ring.get(slot, age), expected, "slot {slot}, age {age}");
            }
        }
    }
}

/// Checks that the replacements of a retired name are not retired themselves. Otherwise the
/// translation of a rule would never end.
pub(crate) fn retired(data: &[u8]) {
    let Ok(name) = std::str::from_utf8(data) else { return };
    let Some(today) = model::counters::retired(name) else { return };
    for line in today {
        assert_ne!(*line, name);
        assert_eq!(
            model::counters::retired(line),
            None,
            "{name} reads {line}, which is retired too"
        );
    }
}
