//! Readers of a kernel tree that is made up, recorded or hostile.

mod faults;
mod hostile;
mod reader;
mod recorded;
