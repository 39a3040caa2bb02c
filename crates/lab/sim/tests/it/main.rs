//! The model, in generated scenarios and with the promised figures.

mod clauses;
mod figures;
mod policies;
mod scenarios;
