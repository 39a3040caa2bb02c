//! The checks of the source tree.

mod commits;
mod deadlines;
mod layers;
mod links;
mod shape;
mod text;
