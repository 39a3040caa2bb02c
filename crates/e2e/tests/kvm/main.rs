//! Tests in a host that runs as a guest, with systemd, libvirt and real KVM: `make test-kvm`.

mod groups;
mod kills;
mod memory;
mod moves;
mod truth;
mod units;
