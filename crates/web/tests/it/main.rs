//! The pages as browsers and attackers ask for them, over real sockets, with a made-up day of a
//! hundred guests behind them.

mod attacks;
mod browser;
mod changes;
mod fleet;
mod guests;
mod neighbour;
mod pages;
mod password;
mod socket;
