//! Tests with systemd, libvirt and real KVM, in a host that runs as a guest: `make test-kvm`.

mod backing;
mod groups;
mod kills;
mod memory;
mod merged;
mod moves;
mod parking;
mod truth;
mod units;
mod victims;
