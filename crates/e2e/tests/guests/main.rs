//! The daemon, the manager, the monitor and farms with real guests, in one program, which is linked
//! once. Guests share the machine's two cores: one fleet at a time.

mod experiments;
mod farm_clones;
mod farm_disks;
mod farm_life;
mod host_alone;
mod host_eight;
mod host_life;
mod host_moves;
mod hostile;
mod hypervisor;
mod idle;
mod kvm;
mod libvirt;
mod machine;
mod main_job;
mod manager;
mod metrics;
mod monitor_agree;
mod monitor_live;
mod monitor_truth;
mod pace;
mod restore;
mod signals;
mod top_tmux;
mod up;
