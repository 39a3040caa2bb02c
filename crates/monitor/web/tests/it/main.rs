//! Requests of browsers and attackers to the pages, over real sockets. The data are a generated day
//! of a hundred guests.

mod attacks;
mod browser;
mod changes;
mod fleet;
mod guests;
mod neighbour;
mod pages;
mod password;
mod socket;
