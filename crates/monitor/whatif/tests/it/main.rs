//! Replay of recordings of the model.

mod replay;
