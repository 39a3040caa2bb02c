//! The experiments by name.

use crate::{Bench, Error, Outcome, View, cmm, penguins, plug, swap};

/// An experiment.
pub struct Experiment {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it repeats, in a line.
    pub title: &'static str,
    /// Runs it.
    pub run: fn(&mut Bench<'_>) -> Result<(), Error>,
    /// Derives what there is to show of a result.
    pub view: fn(&Outcome) -> View,
}

/// All of them.
pub const ALL: &[Experiment] = &[
    Experiment {
        name: "penguins",
        title: "how many servers on a pin head: first and later hits, shared, squeezed, limited",
        run: penguins::run,
        view: penguins::view,
    },
    Experiment {
        name: "swap",
        title: "a small guest that swaps to memory against a large one, and who lives beside it",
        run: swap::run,
        view: swap::view,
    },
    Experiment {
        name: "cmm",
        title: "ballooning against page reporting: databases, and a claim of memory",
        run: cmm::run,
        view: cmm::view,
    },
    Experiment {
        name: "plug",
        title: "the published rules, and ours, against sizing by hand",
        run: plug::run,
        view: plug::view,
    },
];

/// The one of this name.
pub fn find(name: &str) -> Result<&'static Experiment, Error> {
    ALL.iter().find(|one| one.name == name).ok_or_else(|| {
        let known: Vec<&str> = ALL.iter().map(|one| one.name).collect();
        Error::Unknown { name: name.to_owned(), known: known.join(", ") }
    })
}
