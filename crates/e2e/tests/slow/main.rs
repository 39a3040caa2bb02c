//! What takes minutes: images with Debian's servers, the experiments, twenty guests at once.
//! `make test-slow` runs it, one test after the other.

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
