//! Tests of memory limits, with cgroups and tiers of this machine or fake ones.

mod tiers;
