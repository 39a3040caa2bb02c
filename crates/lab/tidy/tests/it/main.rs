//! The checks, over the tree.

mod commits;
mod deadlines;
mod layers;
mod links;
mod shape;
mod text;
