//! `pinhead up`: starts guests, shows them, and manages them while no `pinhead host` does.

// Printing panics without a reader, and a panic would end all guests.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod check;
pub mod detach;
mod json;
pub(crate) mod leftovers;
mod managed;
mod own_manager;
pub mod plan;
pub mod progress;
mod screen;
pub mod serve;
pub mod setup;
mod table;
mod unwind;

use crate::Error;
use crate::args::UpArgs;
use serve::{Guests, Run, Watcher};

/// Runs guests until their time is over or the user ends the command. All guests end with this
/// command.
pub fn run(args: &UpArgs) -> Result<(), Error> {
    if args.check {
        return check::run(args);
    }
    let guests = match &args.farm {
        Some(path) if args.detach => return detach::start(path, args),
        Some(path) => Guests::Farm(serve::load(path, &args.only)?),
        None => Guests::Alike(args),
    };
    let run = Run { seconds: args.seconds, is_managed: !args.no_manager };
    serve::run(guests, &run, Watcher::Here(args.format))
}
