//! Tests that take minutes, or need a quiet machine: images with Debian's servers, the experiments,
//! idle guests, twenty guests at once. `make test-slow` runs the experiments one after the other,
//! at the same time as tests that other load does not disturb. The other tests run after that.

mod boot_hang;
mod experiments;
mod farm_database;
mod farm_disks;
mod handing_over;
mod host_eight;
mod idle;
mod live_migration;
mod monitor_truth;
mod pace;
mod packages;
mod page_sharing;
mod park_crash;
mod tune_farms;
mod web_fleet;
mod web_pages;
