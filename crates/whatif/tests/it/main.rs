//! Recordings of the model, played again.

mod replay;
