//! The model, in generated scenarios and with the figures that we promise.

mod clauses;
mod figures;
mod policies;
mod scenarios;
