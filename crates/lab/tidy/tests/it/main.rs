//! The checks, over the tree.

mod deadlines;
mod layers;
mod links;
mod shape;
mod text;
