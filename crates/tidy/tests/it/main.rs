//! The checks, over the tree.

mod layers;
mod links;
mod text;
