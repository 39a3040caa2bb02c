//! The experiments.

use crate::{Bench, Error, Outcome, View, cmm, count, penguins, plug, swap};

/// An experiment.
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// Title of the published experiment, in one line.
    pub title: &'static str,
    /// Runs the experiment.
    pub run: fn(&mut Bench<'_>) -> Result<(), Error>,
    /// Derives the view of a result.
    pub view: fn(&Outcome) -> View,
}

/// After "Penguins on a Pin Head" (2006).
pub const PENGUINS: Experiment = Experiment {
    name: "penguins",
    title: "how many servers fit: first and later hits, with shared, squeezed and limited memory",
    run: penguins::run,
    view: penguins::view,
};

/// After the question of "Penguins on a Pin Head": the number of servers that one machine runs.
pub const COUNT: Experiment = Experiment {
    name: "count",
    title: "how many servers run at one time, if idle servers are parked (penguins --count)",
    run: count::run,
    view: count::view,
};

/// After a study of swap on a virtual disk (2001).
pub const SWAP: Experiment = Experiment {
    name: "swap",
    title: "a small guest that swaps to memory against a large guest, and the guests beside it",
    run: swap::run,
    view: swap::view,
};

/// After a study of CMM1 and CMM2 (2009).
pub const CMM: Experiment = Experiment {
    name: "cmm",
    title: "ballooning against page reporting: databases, and a guest that claims memory",
    run: cmm::run,
    view: cmm::view,
};

/// After the study of cpuplugd's rules (2012).
pub const PLUG: Experiment = Experiment {
    name: "plug",
    title: "the published rules and pinhead's policy against guests sized by hand",
    run: plug::run,
    view: plug::view,
};

/// All experiments.
pub const ALL: [Experiment; 5] = [PENGUINS, COUNT, SWAP, CMM, PLUG];

/// Returns the view of a result. The view of an unknown experiment contains only numbers.
pub fn view(outcome: &Outcome) -> View {
    let known = ALL.iter().find(|one| one.name == outcome.experiment);
    known.map(|one| (one.view)(outcome)).unwrap_or_default()
}
