//! Tests that take minutes, or that want a quiet machine: images with Debian's servers, the
//! experiments, guests that sleep, twenty guests at once. `make test-slow` runs the experiments one
//! after the other, beside them those that nobody disturbs, and then the others.

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
