//! Where the names of guests come from.

use std::cell::Cell;
use std::rc::Rc;

use crate::Id;

/// Gives out ids. Its clones count together, so that no two sources of one manager ever name two
/// guests alike.
#[derive(Clone, Debug, Default)]
pub struct IdSource {
    given: Rc<Cell<u64>>,
}

impl IdSource {
    /// A source whose first id is 1.
    pub fn new() -> IdSource {
        IdSource::default()
    }

    /// An id that was never given before.
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
