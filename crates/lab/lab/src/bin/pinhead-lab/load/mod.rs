//! `pinhead-lab load`: loads on guests, and their measurements.
//!
//! ```text
//!   addresses, or a farm's guests ─► targets ─► load::run ─────► requests a second, latencies
//!                     its guests ─► FarmExec ─► load::job::run ─► seconds of each round
//! ```

mod args;
mod farm;
mod jobs;
mod screen;
mod web;

pub use args::{Kind, LoadArgs, Summary};

use crate::Error;

pub fn run(args: &LoadArgs) -> Result<Summary, Error> {
    match &args.kind {
        Kind::Web(args) => web::web(args),
        Kind::Wipe(args) => web::wipe(args),
        Kind::Claim(args) => jobs::claim(args),
        Kind::Tar(args) => jobs::tar(args),
        Kind::Build(args) => jobs::build(args),
    }
}
