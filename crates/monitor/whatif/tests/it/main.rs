//! Integration tests of replays.

mod replay;
