//! Tests in a host that runs as a guest, with systemd, libvirt and real KVM: `make test-kvm`.

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
