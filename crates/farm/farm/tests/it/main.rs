//! Tests of memory limits, with cgroups and tiers of this machine.

mod tiers;
