//! `pinhead up`: starts real guests, paces them, grants their pools, and shows them.

// Printing panics if nobody reads, and the guests end with this process.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod detach;
mod json;
pub(crate) mod leftovers;
pub mod plan;
pub mod progress;
mod screen;
pub mod serve;
pub mod setup;
mod table;
mod unwind;

use crate::Error;
use crate::args::UpArgs;
use serve::{Guests, Watcher};

/// Runs guests until the time is over or the user ends the command. Every guest ends with the
/// command.
pub fn run(args: &UpArgs) -> Result<(), Error> {
    let guests = match &args.farm {
        Some(path) if args.detach => return detach::start(path, &args.only, args.seconds),
        Some(path) => Guests::Farm(serve::load(path, &args.only)?),
        None => Guests::Alike(args),
    };
    serve::run(guests, args.seconds, Watcher::Here(args.format))
}
