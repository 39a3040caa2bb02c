//! Readers of a fake, recorded or hostile kernel tree.

mod faults;
mod hostile;
mod reader;
mod recorded;
