//! The daemon, the manager, the monitor and farms with real guests, in one program, which is linked
//! once. Several tests run at a time, as many as have a place for their guests.

mod crowded;
mod fake_guest;
mod farm_clones;
mod farm_life;
mod farm_up;
mod fleet_glance;
mod fleet_watch;
mod host_alone;
mod host_life;
mod host_moves;
mod host_parks;
mod host_rivals;
mod hypervisor;
mod hyptop;
mod kvm;
mod libvirt;
mod machine;
mod main_job;
mod manager;
mod metrics;
mod monitor_agree;
mod monitor_live;
mod neighbours;
mod owners;
mod parked;
mod parked_disk;
mod qemu_rights;
mod restore;
mod signals;
mod top_tmux;
mod zvm_appldata;
mod zvm_cmm;
mod zvm_monwriter;
mod zvm_sthyi;
