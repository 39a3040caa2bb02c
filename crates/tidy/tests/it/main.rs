//! The checks, over the tree.

mod layers;
mod links;
mod shape;
mod text;
