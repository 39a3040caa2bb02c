//! What takes minutes: images with Debian's servers, the experiments, twenty guests at once.
//! `make test-slow` runs it: the experiments one after the other, beside them those that nobody
//! disturbs, and then what measures, alone.

mod boot_hang;
mod experiments;
mod farm_database;
mod farm_disks;
mod live_migration;
mod monitor_truth;
mod packages;
mod park_crash;
mod tune_farms;
mod web_fleet;
mod web_pages;
