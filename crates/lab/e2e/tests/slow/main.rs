//! Tests that take minutes or need a quiet machine: images with Debian's servers, idle guests,
//! twenty guests at once. `make test-slow` runs the tests that tolerate other load together with
//! the experiments, which are tests of `lab`. The other tests run afterwards.

mod boot_hang;
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
