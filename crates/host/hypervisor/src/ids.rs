//! Source of the guests' ids.

use std::cell::Cell;
use std::rc::Rc;

use crate::Id;

/// Generates ids. Clones share one counter, so that the sources of a manager never assign the same
/// id to two guests.
#[derive(Clone, Debug, Default)]
pub struct IdSource {
    given: Rc<Cell<u64>>,
}

impl IdSource {
    /// Creates a source with the first id 1.
    pub fn new() -> IdSource {
        IdSource::default()
    }

    /// Returns an id that was never returned before.
    pub fn next(&self) -> Id {
        self.given.set(self.given.get() + 1);
        Id(self.given.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_never_give_the_same_id() {
        let ids = IdSource::new();
        let other = ids.clone();
        assert_eq!([ids.next(), other.next(), ids.next()], [Id(1), Id(2), Id(3)]);
    }
}
