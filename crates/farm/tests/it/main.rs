//! Limits of memory, with cgroups and tiers of this machine or made-up ones.

mod tiers;
