//! The model, in generated scenarios and with the figures that we promise.

mod figures;
mod scenarios;
